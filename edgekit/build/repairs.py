"""What the guard tries, cheapest first: another observer, equalisation, a few layers in float, training.

Each step is asked only when those before it did not keep the promise, and is told the best recipe so far.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from edgekit.build.artifact import Artifact
from edgekit.build.chains import Chains
from edgekit.build.pipeline import Stage
from edgekit.build.preparing import Walk
from edgekit.build.recipe import OBSERVERS, Recipe
from edgekit.build.sensitivity_rows import Sensitivity, read_sensitivities
from edgekit.build.stages.noise import Noise, read_noise_db
from edgekit.build.stages.qat import TrainQuantized
from edgekit.build.stages.quantize import Quantize
from edgekit.build.stages.sense import Sense
from edgekit.build.training.plan import SoftLabels, Training

__all__ = ["ORDER", "NothingToTry", "Repair", "Step", "noisiest", "repairs", "sense"]

ORDER = ("as built", "observer", "equalisation", "mixed precision", "training")
"""What is tried, by what it costs to build and to run."""

DYNAMIC_ORDER = ("as built", "mixed precision")
"""The same of a network that is quantized at run time."""

NOISE_SHARE = 0.8
"""Of the noise that single layers bring, so much is taken out by leaving the noisiest of them in float."""

MOST_FLOAT_SHARE = 0.15
"""Of the layers, no more stay in float: beyond that the payload is no INT8 network any more."""

QAT_EPOCHS, QAT_RATE = 2, 1e-4


class NothingToTry(Exception):  # noqa: N818 - it reads as a sentence where it is raised
    """This repair would change nothing."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A way to quantize.

    Attributes:
        name: short.
        what: it does, in words.
        recipe: None for the usual one.
        quantize: the stage, if it is another one.
        sensitivities: that it was chosen by.
    """

    name: str
    what: str
    recipe: Recipe | None = None
    quantize: Stage | None = None
    sensitivities: tuple[Sensitivity, ...] = ()


Step = Callable[[Recipe], Repair]


def repairs(chains: Chains, program: Artifact, walk: Walk, *, dynamic: bool = False) -> tuple[tuple[str, Step], ...]:
    """Names and steps, in the order of what they cost to build and to run.

    Args:
        chains: of the build.
        program: the float program.
        walk: runs a chain.
        dynamic: whether the network is quantized at run time.
    """

    def as_built(best: Recipe) -> Repair:
        static = "histogram ranges, weights rounded on what they see, biases corrected"
        return Repair("as built", "weights by the output row, activations at run time" if dynamic else static)

    def observer(best: Recipe) -> Repair:
        noise = {name: _noise_db(chains, program, walk, replace(best, observer=name)) for name in OBSERVERS}
        name = max(noise, key=lambda each: noise[each])
        if name == best.observer:
            raise NothingToTry
        what = f"{name} ranges: logits {noise[name] - noise[best.observer]:+.1f} dB clearer on calibration photos"
        return Repair("observer", what, replace(best, observer=name))

    def equalise(best: Recipe) -> Repair:
        return Repair("equalisation", "channels scaled to like ranges across layers", replace(best, equalise=True))

    def mixed(best: Recipe) -> Repair:
        rows = sense(chains, program, walk, best)
        layers = noisiest(rows)
        what = f"{len(layers)} of {len(rows)} layers in float: {', '.join(_module(rows, name) for name in layers)}"
        return Repair("mixed precision", what, replace(best, float_layers=layers), sensitivities=rows)

    def train(best: Recipe) -> Repair:
        splits = chains.splits
        if splits is None:
            raise NothingToTry
        recipe = replace(best, float_layers=())
        training = Training(
            epochs=QAT_EPOCHS, learning_rate=QAT_RATE, seed=chains.request.seed, device=chains.device, label_smoothing=0.0
        )
        soft = SoftLabels(temperature=2.0, share=0.8 if splits.labelled else 1.0)
        stage = TrainQuantized(chains.photos, splits, recipe, training, soft)
        what = f"quantization-aware training of {QAT_EPOCHS} epochs, taught by the float network"
        return Repair("training", what, recipe, stage)

    steps = zip(ORDER, (as_built, observer, equalise, mixed, train), strict=True)
    return tuple((name, step) for name, step in steps if not dynamic or name in DYNAMIC_ORDER)


def sense(chains: Chains, program: Artifact, walk: Walk, recipe: Recipe) -> tuple[Sensitivity, ...]:
    """What each layer costs when it alone is quantized."""
    report = walk("sensitivity", (Sense(chains.photos, chains.splits, recipe),), program)
    return read_sensitivities(report.path)


def _noise_db(chains: Chains, program: Artifact, walk: Walk, recipe: Recipe) -> float:
    quantized = walk(f"int8 by {recipe.observer}", (Quantize(chains.photos, recipe),), program)
    return read_noise_db(walk("noise", (Noise(program, chains.photos),), quantized).path)


def noisiest(rows: tuple[Sensitivity, ...]) -> tuple[str, ...]:
    """The fewest layers that bring most of the noise, in the order of the network."""
    power = {row.layer: 10 ** (-row.snr_db / 10) for row in rows}
    most = max(1, round(MOST_FLOAT_SHARE * len(rows)))
    total, taken, chosen = sum(power.values()), 0.0, []
    for layer in sorted(power, key=lambda name: -power[name])[:most]:
        if taken >= NOISE_SHARE * total:
            break
        chosen.append(layer)
        taken += power[layer]
    return tuple(layer for layer in power if layer in chosen)


def _module(rows: tuple[Sensitivity, ...], layer: str) -> str:
    return next(row.module for row in rows if row.layer == layer)

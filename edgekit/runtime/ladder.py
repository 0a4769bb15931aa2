"""The ladder: run the first rung; where it is not sure enough, climb.

Early exit, adaptive resolution and small-to-large routing are this one loop. A rung either starts again from the image or
continues with the features of the rung before.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from edgekit.runtime.engines import Tensor
from edgekit.spec.errors import BundleError
from edgekit.spec.manifest import Rung

__all__ = ["Outcome", "Step", "climb", "margin_of"]


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """A rung that can be run: `run` takes the image's tensor or the features, and gives logits first, then features."""

    rung: Rung
    run: Callable[..., tuple[Tensor, ...]]


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """Where the climb ended: index of the rung, its outputs, and the margin between the two best logits."""

    index: int
    outputs: tuple[Tensor, ...]
    margin: float


def margin_of(logits: Tensor) -> float:
    """(classes,) or (1, classes) -> best minus second logit; integers in exact steps, 0 where there is only one class."""
    flat = logits.reshape(-1)
    if flat.size < 2:
        return 0.0
    second, best = np.partition(flat, flat.size - 2)[-2:].tolist()
    # As Python numbers: the difference of two int8 may not fit in int8.
    return float(best - second)


def climb(steps: Sequence[Step], prepare: Callable[[Rung], Tensor]) -> Outcome:
    """Run rungs until one is sure enough, or the last one has answered.

    Args:
        steps: the rungs in order.
        prepare: the image as the input tensor of a rung that does not continue.

    Raises:
        BundleError: the first rung continues, or a rung continues one that gives no features.
    """
    features: tuple[Tensor, ...] = ()
    for index, step in enumerate(steps):
        rung = step.rung
        if rung.continues and not features:
            raise BundleError(
                f"rung {rung.name!r} continues a rung that gives no features",
                where=f"rungs[{index}]",
                fix="rebuild the bundle",
                code="bundle-ladder",
            )
        outputs = step.run(*features) if rung.continues else step.run(prepare(rung))
        margin = margin_of(outputs[0])
        if index == len(steps) - 1 or margin >= rung.min_margin:
            return Outcome(index, outputs, margin)
        features = outputs[1:]
    raise BundleError("the bundle has no rungs", where="rungs", fix="rebuild the bundle", code="bundle-ladder")

"""`quantize`: a float program -> one set of integers that all INT8 payloads carry."""

import json
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from edgekit.build.artifact import Artifact
from edgekit.build.facts import FILE, Facts, read_facts
from edgekit.build.photos import Photos
from edgekit.build.pipeline import Progress
from edgekit.build.recipe import Recipe
from edgekit.build.stages.export import PROGRAM
from edgekit.spec.errors import GoalError

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from edgekit.build.quantize import Quantized
    from edgekit.build.quantize_dynamic import Dynamic

__all__ = ["Quantize", "check_layers", "is_dynamic", "read_dynamic", "read_quantized", "write_quantized"]

FOLDED, UNFOLDED, ROUNDED, SCALES = "folded.pt2", "unfolded.pt2", "rounded.pt2", "quantization.json"


@dataclass(frozen=True, slots=True)
class Quantize:
    """Static INT8, calibrated on photos; dynamic INT8, which needs none, for networks with attention.

    Attributes:
        photos: which photos; those for calibration are used here.
        recipe: observer, repairs, float layers.
    """

    photos: Photos
    recipe: Recipe = Recipe()  # noqa: RUF009 - frozen

    name: ClassVar[str] = "quantize"
    version: ClassVar[int] = 8
    accepts: ClassVar[str] = "program"
    returns: ClassVar[str] = "quantized"
    tools: ClassVar[tuple[str, ...]] = ("torch", "torchao", "numpy", "pillow")

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write both forms of the quantized program and `quantization.json`: every scale and zero point.

        Of a network with attention: the program with rounded weights, and `quantization.json` names the scheme.

        Raises:
            GoalError: `no-layers`; `dynamic`, where the recipe is for scales that a network with attention has not.
        """
        from edgekit.build import programs
        from edgekit.build.quantize import quantize
        from edgekit.build.quantize_dynamic import has_attention, quantize_dynamically
        from edgekit.build.tensors import batches

        facts = read_facts(source.path)
        program = programs.load(source.path / PROGRAM)
        check_layers(program, facts)
        if has_attention(program):
            if replace(self.recipe, float_layers=()) != Recipe():
                raise _no_scales()
            progress(0.1, "rounding the weights of linear layers")
            _write_dynamic(quantize_dynamically(program, float_layers=self.recipe.float_layers), out, source.path)
            return
        progress(0.02, "opening the photos")
        calibration, _ = self.photos.open()
        count = len(calibration)

        def seen(done: int) -> None:
            progress(0.05 + 0.8 * done / max(count, 1), f"calibrating on photo {done} of {count}")

        quantized = quantize(program, batches(calibration, facts), recipe=self.recipe, seen=seen)
        progress(0.9, "writing")
        write_quantized(quantized, out, source.path)


def check_layers(program: "ExportedProgram", facts: Facts) -> None:
    """Refuse a network without any layer to quantize.

    Raises:
        GoalError: `no-layers`.
    """
    from edgekit.build.quantizer import LINEARS

    if not any(node.op == "call_function" and node.target in LINEARS for node in program.graph.nodes):
        raise GoalError(
            "the network has no convolution and no linear layer: there is nothing to quantize",
            where=facts.name,
            fix="build with --precision fp16 or fp32",
            code="no-layers",
        )


def write_quantized(quantized: "Quantized", out: Path, source: Path) -> None:
    """Write both forms and every scale, and copy what is known of the network from `source`, the folder of the program."""
    from edgekit.build import programs

    programs.save(quantized.folded, out / FOLDED)
    programs.save(quantized.unfolded, out / UNFOLDED)
    scales = {
        "entry": asdict(quantized.entry),
        "exits": [asdict(each) for each in quantized.exits],
        "tensors": [asdict(t) for t in quantized.tensors],
        "float_layers": quantized.float_layers,
    }
    (out / SCALES).write_text(json.dumps(scales, sort_keys=True) + "\n", encoding="utf-8")
    shutil.copy(source / FILE, out / FILE)


def _write_dynamic(dynamic: "Dynamic", out: Path, source: Path) -> None:
    from edgekit.build import programs

    programs.save(dynamic.program, out / ROUNDED)
    told = {"scheme": "dynamic", "float_layers": dynamic.float_layers}
    (out / SCALES).write_text(json.dumps(told, sort_keys=True) + "\n", encoding="utf-8")
    shutil.copy(source / FILE, out / FILE)


def is_dynamic(folder: Path) -> bool:
    """Whether `Quantize` took the dynamic scheme."""
    return (folder / ROUNDED).is_file()


def _no_scales() -> GoalError:
    return GoalError(
        "a network with attention is quantized at run time: it has no fixed scales to look at or to mend",
        where="int8",
        fix="leave layers in float, or build with --precision fp16",
        code="dynamic",
    )


def read_dynamic(folder: Path) -> "Dynamic":
    """What `Quantize` wrote of a network with attention."""
    from edgekit.build import programs
    from edgekit.build.quantize_dynamic import Dynamic

    told = json.loads((folder / SCALES).read_text(encoding="utf-8"))
    return Dynamic(programs.load(folder / ROUNDED), tuple(told["float_layers"]))


def read_quantized(folder: Path) -> "Quantized":
    """What `Quantize` wrote of a network with static scales.

    Raises:
        GoalError: `dynamic`; it was quantized dynamically.
    """
    from edgekit.build import programs
    from edgekit.build.integer import Edge
    from edgekit.build.quantize import Quantized, TensorQuant

    if is_dynamic(folder):
        raise _no_scales()
    scales = json.loads((folder / SCALES).read_text(encoding="utf-8"))
    tensors = tuple(
        TensorQuant(t["name"], t["dtype"], t["axis"], tuple(t["scale"]), tuple(t["zero_point"])) for t in scales["tensors"]
    )
    return Quantized(
        folded=programs.load(folder / FOLDED),
        unfolded=programs.load(folder / UNFOLDED),
        entry=Edge(**scales["entry"]),
        exits=tuple(Edge(**each) for each in scales["exits"]),
        tensors=tensors,
        float_layers=tuple(scales["float_layers"]),
    )

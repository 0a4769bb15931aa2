"""`lower` of a ladder: quantized programs, whole or cut into segments -> one payload whose pieces are the rungs."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from edgekit.build.artifact import Artifact
from edgekit.build.pipeline import Progress
from edgekit.build.stages.lower import PAYLOAD, TOOLS, explained, lowering
from edgekit.build.stages.quantize import read_quantized
from edgekit.spec import codec
from edgekit.spec.errors import GoalError
from edgekit.spec.manifest import Entry, Payload

if TYPE_CHECKING:
    from edgekit.build.quantize import Quantized

__all__ = ["LowerRungs", "RungPart"]


@dataclass(frozen=True, slots=True)
class RungPart:
    """A quantized program and the rungs it serves.

    Attributes:
        quantized: the program.
        rungs: a name for each of its exits, the last answer included; one name of a program that is used without its exits.
    """

    quantized: Artifact
    rungs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LowerRungs:
    """An INT8 payload of several rungs.

    Attributes:
        engine: `executorch`, `litert` or `onnx`.
        activation_dtype: `int8` or `uint8`; only ONNX heeds it.
        parts: in the order of the ladder.
    """

    engine: str
    activation_dtype: str
    parts: tuple[RungPart, ...]

    name: ClassVar[str] = "lower-rungs"
    version: ClassVar[int] = 2
    accepts: ClassVar[str] = "quantized"
    returns: ClassVar[str] = "payload"
    tools: ClassVar[tuple[str, ...]] = TOOLS

    @property
    def title(self) -> str:
        """Which payload."""
        return f"lower {self.engine}-int8: {', '.join(name for part in self.parts for name in part.rungs)}"

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write the payload's files and `payload.json` with an entry for each rung.

        Raises:
            GoalError: `float-operator`, `dynamic`, `cut`, `rung-files`.
        """
        from edgekit.build import operators
        from edgekit.build.gates import check_layers, check_payload

        del source  # the first of the parts
        progress(0.05, "reading the quantized programs")
        rungs: dict[str, Quantized] = {}
        for part in self.parts:
            quantized = read_quantized(part.quantized.path)
            check_layers(quantized.folded, allowed=quantized.float_layers)
            rungs |= _named(quantized, part.rungs)
        progress(0.2, f"lowering to {self.engine}")
        code = lowering(self.engine)
        if not hasattr(code, "lower_rungs"):
            raise GoalError(
                f"the lowering of {self.engine} writes no payloads of several rungs",
                where=self.engine,
                fix="leave it out with --engines, or give its module a function lower_rungs",
                code="rung-files",
            )
        with explained(self.engine, "int8"):
            lowered = code.lower_rungs(rungs, activation_dtype=self.activation_dtype)
        for name, content in lowered.files.items():
            (out / f"{name}{code.SUFFIX}").write_bytes(content)
        progress(0.9, "reading its operators back")
        files = {name: out / f"{name}{code.SUFFIX}" for name in lowered.files}
        with explained(self.engine, "int8"):
            found = {name: operators.read_methods(self.engine, path) for name, path in files.items()}
        placements = {name: found[piece.file][piece.method] for name, piece in lowered.pieces.items()}
        for name, placement in placements.items():
            check_payload(self.engine, placement, allowed=len(rungs[name].float_layers))
        entries = tuple(
            Entry(name, f"payloads/{piece.file}{code.SUFFIX}", piece.method, piece.inputs, piece.outputs)
            for name, piece in lowered.pieces.items()
        )
        payload = Payload(f"{self.engine}-int8", self.engine, "int8", entries, operators.joined(placements.values()), ())
        (out / PAYLOAD).write_text(json.dumps(codec.to_json(payload), indent=1) + "\n", encoding="utf-8")


def _named(quantized: "Quantized", names: tuple[str, ...]) -> "dict[str, Quantized]":
    from edgekit.build.ladder.segments import exits_of, segments, whole

    if len(names) == 1:
        return {names[0]: whole(quantized)}
    if len(names) != exits_of(quantized):
        raise ValueError(f"{len(names)} names for {exits_of(quantized)} exits")
    return dict(zip(names, segments(quantized), strict=True))

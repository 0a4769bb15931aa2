"""`lower-text`: a checkpoint of a network that reads text -> one payload with all its buckets."""

import importlib
import json
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar

from edgekit.build.artifact import Artifact
from edgekit.build.pipeline import Progress
from edgekit.build.stages.lower import PAYLOAD, TOOLS, explained
from edgekit.build.text.splits import TextSplits
from edgekit.spec import codec
from edgekit.spec.manifest import Entry, Payload

if TYPE_CHECKING:
    import torch

    from edgekit.build.text.facts import TextFacts
    from edgekit.build.text.tokenizer import Tokenizer

__all__ = ["RUNG", "LowerText", "lowering"]

RUNG = "main"
CALIBRATION_TEXTS = 64


@dataclass(frozen=True, slots=True)
class LowerText:
    """One payload. INT8 weights are rounded here, for every engine by the same rule and so to the same integers.

    Attributes:
        engine: `executorch`, `litert` or `onnx`.
        precision: one of `text.lowered.PRECISIONS`.
        tokens: buckets, ascending.
        float_layers: linear layers that stay float32 in an INT8 payload.
        calibration: texts that fixed scales are measured on; only for `int8-static`. Without them our own samples are.
    """

    engine: str
    precision: str
    tokens: tuple[int, ...]
    float_layers: tuple[str, ...] = ()
    calibration: TextSplits | None = None

    name: ClassVar[str] = "lower-text"
    version: ClassVar[int] = 2
    accepts: ClassVar[str] = "checkpoint"
    returns: ClassVar[str] = "payload"
    tools: ClassVar[tuple[str, ...]] = (*TOOLS, "tokenizers")

    @property
    def title(self) -> str:
        """Which payload."""
        return f"lower {self.engine}-{self.precision}"

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write the payload file and `payload.json`.

        Raises:
            GoalError: `text-precision` or `lowering`.
        """
        from edgekit.build import operators
        from edgekit.build.text.checkpoint import read_text_checkpoint
        from edgekit.build.text.integers import snap
        from edgekit.build.text.rewrite import rewrite

        progress(0.05, "reading the network")
        module, facts, tokenizer = read_text_checkpoint(source.path)
        plain = rewrite(module)
        if self.precision.startswith("int8"):
            snap(plain, float_layers=self.float_layers)
        progress(0.1, f"lowering {len(self.tokens)} lengths to {self.engine}")
        code = lowering(self.engine)
        samples = self._samples(tokenizer, facts) if self.precision == "int8-static" else ()
        with explained(self.engine, self.precision):
            lowered = code.lower(
                plain, tokens=self.tokens, precision=self.precision, float_layers=self.float_layers, samples=samples
            )
        file = f"model.{self.precision}{code.SUFFIX}"
        (out / file).write_bytes(lowered.payload)
        progress(0.9, "reading its operators back")
        with explained(self.engine, self.precision):
            placement = operators.read(self.engine, out / file)
        entries = tuple(Entry(RUNG, f"payloads/{file}", b.method, b.inputs, b.outputs) for b in lowered.buckets)
        payload = Payload(f"{self.engine}-{self.precision}", self.engine, self.precision, entries, placement, ())
        (out / PAYLOAD).write_text(json.dumps(codec.to_json(payload), indent=1) + "\n", encoding="utf-8")

    def _samples(self, tokenizer: "Tokenizer", facts: "TextFacts") -> "tuple[torch.Tensor, ...]":
        import torch

        from edgekit.build.data import padded
        from edgekit.build.text.samples import SAMPLES

        texts = SAMPLES if self.calibration is None else self.calibration.open().fit.take(CALIBRATION_TEXTS).texts
        ids, _ = tokenizer.encode(texts, max_tokens=facts.max_tokens)
        return (torch.from_numpy(padded(ids, max_tokens=facts.max_tokens)),)


def lowering(engine: str) -> ModuleType:
    """The module that lowers networks that read text to payloads of `engine`; it imports the engine's converter.

    Raises:
        UnknownName: there is none.
    """
    from edgekit.spec.errors import UnknownName

    known = ("executorch", "litert", "onnx")
    if engine not in known:
        raise UnknownName("lowering of text networks", engine, known, listing="edgekit doctor")
    return importlib.import_module(f"edgekit.build.text.lower_{engine}")

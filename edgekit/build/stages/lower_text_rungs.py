"""`lower-text` of a ladder: a checkpoint with early exits -> one INT8 payload cut into segments, each with all its buckets."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from edgekit.build.artifact import Artifact
from edgekit.build.pipeline import Progress
from edgekit.build.stages.lower import PAYLOAD, TOOLS, explained
from edgekit.build.stages.lower_text import lowering
from edgekit.spec import codec
from edgekit.spec.manifest import Entry, Payload

__all__ = ["LowerTextRungs"]


@dataclass(frozen=True, slots=True)
class LowerTextRungs:
    """One payload. Its weights are the integers of the uncut network's payload; the heads' are rounded by the same rule.

    Attributes:
        engine: `executorch`, `litert` or `onnx`.
        tokens: buckets, ascending.
        after: numbers of the layers whose exits become rungs, of those that the checkpoint has.
    """

    engine: str
    tokens: tuple[int, ...]
    after: tuple[str, ...]

    name: ClassVar[str] = "lower-text-rungs"
    version: ClassVar[int] = 2
    accepts: ClassVar[str] = "checkpoint"
    returns: ClassVar[str] = "payload"
    tools: ClassVar[tuple[str, ...]] = (*TOOLS, "tokenizers")

    @property
    def title(self) -> str:
        """Which payload."""
        return f"lower {self.engine}-int8: exits after layers {', '.join(self.after)}"

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write the payload's files and `payload.json` with an entry for each rung and bucket.

        Raises:
            GoalError: `float-operator` or `lowering`.
        """
        from edgekit.build import operators
        from edgekit.build.text.checkpoint import read_text_checkpoint
        from edgekit.build.text.exit_checkpoint import read_text_exits
        from edgekit.build.text.integers import snap
        from edgekit.build.text.segments import segmented

        progress(0.05, "reading the network")
        module, facts, _ = read_text_checkpoint(source.path)
        heads = {place: head for place, head in read_text_exits(source.path).items() if place in self.after}
        whole = segmented(module, heads)
        snap(whole)
        count = len(heads) + 1
        progress(0.1, f"lowering {count} segments of {len(self.tokens)} lengths to {self.engine}")
        code = lowering(self.engine)
        with explained(self.engine, "int8"):
            lowered = code.lower_segments(whole.segments(), tokens=self.tokens, classes=facts.classes)
        files = {name: f"{name}{code.SUFFIX}" for name in lowered.files}
        for name, content in lowered.files.items():
            (out / files[name]).write_bytes(content)
        progress(0.9, "reading its operators back")
        with explained(self.engine, "int8"):
            found = {name: operators.read_methods(self.engine, out / file) for name, file in files.items()}
        # One run takes one bucket: the longest is told.
        placements = {rung: found[lowered.file_of(rung)][buckets[-1].method] for rung, buckets in lowered.buckets.items()}
        entries = tuple(
            Entry(rung, f"payloads/{files[lowered.file_of(rung)]}", b.method, b.inputs, b.outputs)
            for rung, buckets in lowered.buckets.items()
            for b in buckets
        )
        payload = Payload(f"{self.engine}-int8", self.engine, "int8", entries, operators.joined(placements.values()), ())
        (out / PAYLOAD).write_text(json.dumps(codec.to_json(payload), indent=1) + "\n", encoding="utf-8")

"""`sense-text`: a checkpoint of a network that reads text -> what each linear layer costs in dynamic INT8."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from edgekit.build.artifact import Artifact
from edgekit.build.pipeline import Progress
from edgekit.build.sensitivity_rows import write_sensitivities
from edgekit.build.stages.answer_text import texts_of
from edgekit.build.text.splits import TextSplits

__all__ = ["SenseText"]


@dataclass(frozen=True, slots=True)
class SenseText:
    """Measure the sensitivity of every linear layer.

    Attributes:
        splits: those to tune are judged on; None takes our own samples.
        n: at most so many texts.
    """

    splits: TextSplits | None
    n: int = 96

    name: ClassVar[str] = "sense-text"
    version: ClassVar[int] = 1
    accepts: ClassVar[str] = "checkpoint"
    returns: ClassVar[str] = "report"
    tools: ClassVar[tuple[str, ...]] = ("torch", "tokenizers", "numpy")

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write `sensitivity.json`."""
        from edgekit.build.text.checkpoint import read_text_checkpoint
        from edgekit.build.text.facts import EMBEDDING
        from edgekit.build.text.rewrite import rewrite
        from edgekit.build.text.sensitivity import sensitivities

        module, facts, tokenizer = read_text_checkpoint(source.path)
        texts = texts_of(self.splits, "tune", names=facts.names).take(self.n)
        ids, _ = tokenizer.encode(texts.texts, max_tokens=facts.max_tokens)
        rows = sensitivities(rewrite(module), ids, labels=texts.labels, embeds=facts.task == EMBEDDING, progress=progress)
        write_sensitivities(out, rows)

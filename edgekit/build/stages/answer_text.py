"""`answer-text`: what a float network that reads text, or the payloads of its bundle, say to texts."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from edgekit.build.artifact import Artifact
from edgekit.build.data import Texts
from edgekit.build.pipeline import Progress
from edgekit.build.stages.answer import FLOAT, write_answers
from edgekit.build.text.samples import SAMPLES
from edgekit.build.text.splits import TextSplits

__all__ = ["AnswerText", "AnswerTextBundle", "texts_of"]


@dataclass(frozen=True, slots=True)
class AnswerText:
    """The float network's answers.

    Attributes:
        splits: the data; None takes our own samples.
        part: `tune` or `report`.
    """

    splits: TextSplits | None
    part: str

    name: ClassVar[str] = "answer-text"
    version: ClassVar[int] = 1
    accepts: ClassVar[str] = "checkpoint"
    returns: ClassVar[str] = "report"
    tools: ClassVar[tuple[str, ...]] = ("torch", "tokenizers", "numpy")

    @property
    def title(self) -> str:
        """Whose answers to which texts."""
        return f"float on {self.part}"

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write logits or embeddings, and labels."""
        from edgekit.build.text.checkpoint import read_text_checkpoint
        from edgekit.build.training.evaluate import evaluate

        module, facts, tokenizer = read_text_checkpoint(source.path)
        texts = texts_of(self.splits, self.part, names=facts.names)
        progress(0.1, f"running {len(texts)} texts")
        tokens = tokenizer.tokens(texts, max_tokens=facts.max_tokens)
        write_answers(out, {FLOAT: evaluate(module, tokens, facts)}, texts.labels)


@dataclass(frozen=True, slots=True)
class AnswerTextBundle:
    """The answers of every payload of a bundle, run by its engine, each text in the smallest bucket that holds it.

    Attributes:
        checkpoint: whose tokenizer and classes are taken.
        splits: the data; None takes our own samples.
        part: `tune` or `report`.
    """

    checkpoint: Artifact
    splits: TextSplits | None
    part: str

    name: ClassVar[str] = "answer-text"
    version: ClassVar[int] = 1
    accepts: ClassVar[str] = "bundle"
    returns: ClassVar[str] = "report"
    tools: ClassVar[tuple[str, ...]] = ("executorch", "onnxruntime", "ai-edge-litert", "numpy", "tokenizers")

    @property
    def title(self) -> str:
        """Whose answers to which texts."""
        return f"payloads on {self.part}"

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write logits or embeddings, and labels."""
        from edgekit.build.text.checkpoint import TOKENIZER
        from edgekit.build.text.facts import read_text_facts
        from edgekit.build.text.running import PayloadRunner
        from edgekit.build.text.tokenizer import open_tokenizer
        from edgekit.spec.bundle import open_bundle

        facts = read_text_facts(self.checkpoint.path)
        texts = texts_of(self.splits, self.part, names=facts.names)
        tokenizer = open_tokenizer(self.checkpoint.path / TOKENIZER)
        ids, _ = tokenizer.encode(texts.texts, max_tokens=facts.max_tokens)
        found = {}
        with open_bundle(source.path) as reader:
            for i, payload in enumerate(reader.manifest.payloads):
                progress(i / len(reader.manifest.payloads), f"running {len(texts)} texts on {payload.id}")
                with PayloadRunner(payload, reader.file, pad=tokenizer.facts.pad) as runner:
                    found[payload.id] = runner.all(ids)
        write_answers(out, found, texts.labels)


def texts_of(splits: TextSplits | None, part: str, *, names: tuple[str, ...]) -> Texts:
    """A part of the data, with the class indices of the network where it knows all of their classes; else without labels."""
    if splits is None:
        return Texts("our own samples", SAMPLES)
    texts: Texts = getattr(splits.open(), part)
    if set(texts.classes) <= set(names):
        return texts.with_classes(names)
    return texts.without_labels()

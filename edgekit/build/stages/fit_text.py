"""Stages that train networks that read text: a checkpoint -> the same network, trained on the user's texts."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from edgekit.build.artifact import Artifact, Pinned
from edgekit.build.pipeline import Progress
from edgekit.build.text.splits import TextSplits
from edgekit.build.training.plan import TEXT_TRAINING, SoftLabels, Training
from edgekit.spec.errors import InputError

if TYPE_CHECKING:
    from edgekit.build.data import TextParts, Tokens
    from edgekit.build.text.facts import TextFacts
    from edgekit.build.text.network import TextNetwork
    from edgekit.build.text.tokenizer import Tokenizer

__all__ = ["DistillText", "FitText", "TrainRoundedText", "encoded"]

ROUNDED_TRAINING = replace(TEXT_TRAINING, epochs=2, learning_rate=2e-5)
"""For a network that is trained already and only has to learn to live with rounding."""


@dataclass(frozen=True, slots=True)
class FitText:
    """Train on labels; a network of other classes gets a new head first. Texts to report on are not looked at.

    Attributes:
        splits: the data.
        training: how long and how fast.
    """

    splits: TextSplits
    training: Training = TEXT_TRAINING

    name: ClassVar[str] = "fit-text"
    version: ClassVar[int] = 1
    accepts: ClassVar[str] = "checkpoint"
    returns: ClassVar[str] = "checkpoint"
    tools: ClassVar[tuple[str, ...]] = ("torch", "tokenizers", "numpy")
    resumes: ClassVar[bool] = True

    def run(self, source: Artifact, out: Path, progress: Progress, *, resume: Path | None = None) -> None:
        """Write weights, facts, tokenizer, and `history.json` with an entry `fit`."""
        progress(0.0, "opening the texts")
        parts = self.splits.open()
        weights = f"fitted on {len(parts.fit)} texts"
        _train(source, out, parts, self.training, purpose="fit", weights=weights, progress=progress, resume=resume)


@dataclass(frozen=True, slots=True)
class DistillText:
    """Learn from labels and a teacher that reads the same tokens. Texts to report on are not looked at.

    A student of random weights begins with its teacher's words, see `start.inherit_words`.

    Attributes:
        teacher: its checkpoint.
        splits: the data.
        training: how long and how fast.
        soft: how much of the loss is the teacher's.
        unlabelled: a CSV of texts that only the teacher explains, half of each step; those to tune or to report on are left out.
        purpose: what to call it among its siblings, here and in `history.json`.
    """

    teacher: Artifact
    splits: TextSplits
    training: Training = TEXT_TRAINING
    soft: SoftLabels = SoftLabels()  # noqa: RUF009 - frozen
    unlabelled: Pinned | None = None
    purpose: str = "distill"

    name: ClassVar[str] = "distill-text"
    version: ClassVar[int] = 2
    accepts: ClassVar[str] = "checkpoint"
    returns: ClassVar[str] = "checkpoint"
    tools: ClassVar[tuple[str, ...]] = ("torch", "tokenizers", "numpy")
    resumes: ClassVar[bool] = True

    @property
    def title(self) -> str:
        """Its name among siblings."""
        return self.purpose

    def run(self, source: Artifact, out: Path, progress: Progress, *, resume: Path | None = None) -> None:
        """Write weights, facts, tokenizer, and `history.json` with an entry named by the purpose."""
        from edgekit.build.text.checkpoint import read_text_checkpoint

        progress(0.0, "opening the texts")
        parts = self.splits.open()
        teacher, taught, tokenizer = read_text_checkpoint(self.teacher.path)
        _check_teacher(taught, tokenizer, source, parts.fit.classes)
        weights = f"{self.purpose}: {len(parts.fit)} texts and the answers of {taught.name}"
        _train(
            source,
            out,
            parts,
            self.training,
            purpose=self.purpose,
            weights=weights,
            teacher=(teacher, taught.name),
            soft=self.soft,
            unlabelled=self.unlabelled,
            progress=progress,
            resume=resume,
        )


@dataclass(frozen=True, slots=True)
class TrainRoundedText:
    """Train on with the rounding of dynamic INT8 in place, with the network as it was for teacher; export rounds the weights.

    Attributes:
        splits: the data, of the classes that the network tells apart.
        training: how long and how fast.
        soft: how much of the loss is the float network's.
        float_layers: names of linear layers that do not round.
    """

    splits: TextSplits
    training: Training = ROUNDED_TRAINING
    soft: SoftLabels = SoftLabels()  # noqa: RUF009 - frozen
    float_layers: tuple[str, ...] = ()

    name: ClassVar[str] = "train-rounded-text"
    version: ClassVar[int] = 1
    accepts: ClassVar[str] = "checkpoint"
    returns: ClassVar[str] = "checkpoint"
    tools: ClassVar[tuple[str, ...]] = ("torch", "tokenizers", "numpy")
    resumes: ClassVar[bool] = True

    def run(self, source: Artifact, out: Path, progress: Progress, *, resume: Path | None = None) -> None:
        """Write weights, facts, tokenizer, and `history.json` with an entry `train-rounded`."""
        from edgekit.build.checkpoint import read_history
        from edgekit.build.text.checkpoint import read_text_checkpoint, write_text_checkpoint
        from edgekit.build.text.fake import train_rounded
        from edgekit.build.training.lesson import Lesson
        from edgekit.build.training.record import entry, facts_after, merged

        progress(0.0, "opening the texts")
        module, facts, tokenizer = read_text_checkpoint(source.path)
        fit, tune = encoded(self.splits.open(), tokenizer, facts)
        trained = train_rounded(
            module,
            Lesson(fit, tune, facts, soft=self.soft),
            self.training,
            float_layers=self.float_layers,
            resume=resume,
            progress=progress,
        )
        weights = f"{facts.weights}, trained with rounding"
        facts = facts_after(facts, module, fit, classes=facts.classes, weights=weights)
        told = {**entry(trained, len(fit), of="texts"), "teacher": facts.name}
        history = merged(read_history(source.path), "train-rounded", told)
        write_text_checkpoint(out, module, facts, tokenizer=tokenizer, history=history)


def _train(
    source: Artifact,
    out: Path,
    parts: "TextParts",
    training: Training,
    *,
    purpose: str,
    weights: str,
    progress: Progress,
    resume: Path | None,
    teacher: "tuple[TextNetwork, str] | None" = None,
    soft: SoftLabels | None = None,
    unlabelled: Pinned | None = None,
) -> None:
    from edgekit.build.checkpoint import read_history
    from edgekit.build.text.checkpoint import read_text_checkpoint, with_text_head, write_text_checkpoint
    from edgekit.build.text.start import inherit_words
    from edgekit.build.training.lesson import Lesson
    from edgekit.build.training.record import classes_of, entry, facts_after, merged
    from edgekit.build.training.trainer import train

    _, facts, tokenizer = read_text_checkpoint(source.path)
    fit, tune = encoded(parts, tokenizer, facts)
    classes = classes_of(fit, facts)
    # A head of as many classes of other names tells other things apart.
    keep = facts.names in ((), fit.classes)
    module, new = with_text_head(source.path, classes, seed=training.seed, keep=keep)
    if teacher is not None and not facts.weights_sha256:
        inherit_words(module, teacher[0])
    facts = facts.with_classes(classes)
    more = None if unlabelled is None else _more(unlabelled.path, parts, tokenizer, facts)
    lesson = Lesson(fit, tune, facts, None if teacher is None else teacher[0], soft, more, new)
    trained = train(module, lesson, training, resume=resume, progress=progress)
    told = {**entry(trained, len(fit), of="texts"), "new": list(new), "truncated": fit.truncated}
    if teacher is not None:
        told |= {"teacher": teacher[1], "unlabelled_texts": 0 if more is None else len(more)}
    facts = facts_after(facts, module, fit, classes=classes, weights=weights)
    history = merged(read_history(source.path), purpose, told)
    write_text_checkpoint(out, module, facts, tokenizer=tokenizer, history=history)


def encoded(parts: "TextParts", tokenizer: "Tokenizer", facts: "TextFacts") -> "tuple[Tokens, Tokens]":
    """Texts to fit and to tune, with the class indices of the network where it knows all of their classes."""
    known = set(parts.fit.classes) <= set(facts.names)
    texts = [part.with_classes(facts.names) if known else part for part in (parts.fit, parts.tune)]
    fit, tune = (tokenizer.tokens(part, max_tokens=facts.max_tokens) for part in texts)
    return fit, tune


def _more(path: Path, parts: "TextParts", tokenizer: "Tokenizer", facts: "TextFacts") -> "Tokens":
    """The unlabelled texts, without those that something is decided or reported on."""
    from edgekit.build.data import open_texts

    texts = open_texts(path, labelled=False)
    kept = {*parts.tune.texts, *parts.report.texts}
    places = [i for i, text in enumerate(texts.texts) if text not in kept]
    if not places:
        raise InputError(
            f"all {len(texts)} unlabelled texts are texts to tune or to report on",
            where=texts.name,
            fix="give other texts with --unlabelled, or leave it out",
            code="no-texts",
        )
    return tokenizer.tokens(texts.chosen(places), max_tokens=facts.max_tokens)


def _check_teacher(taught: "TextFacts", tokenizer: "Tokenizer", source: Artifact, classes: tuple[str, ...]) -> None:
    from edgekit.build.text.checkpoint import read_text_checkpoint

    if taught.names != classes and (taught.names or taught.classes != len(classes)):
        told = f"{taught.classes} classes" if taught.classes != len(classes) else "other classes"
        raise InputError(
            f"the teacher {taught.name} tells {told} apart, the data has {len(classes)}: {', '.join(classes[:3])} ...",
            where=taught.name,
            fix="fit the teacher to this data first, or name another with --teacher",
            code="teacher-classes",
        )
    _, facts, own = read_text_checkpoint(source.path)
    if (own.vocabulary, own.facts) != (tokenizer.vocabulary, tokenizer.facts):
        raise InputError(
            f"the teacher {taught.name} reads other tokens than {facts.name}",
            where=taught.name,
            fix="name a teacher with the same vocabulary, such as another network of BERT's uncased one",
            code="teacher-tokens",
        )

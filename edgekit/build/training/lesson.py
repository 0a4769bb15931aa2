"""What a network is taught, and what came of it."""

from dataclasses import dataclass

from torch import nn

from edgekit.build.data import Dataset, Tokens
from edgekit.build.training.material import Data, NetworkFacts, noun
from edgekit.build.training.plan import Exits, SoftLabels
from edgekit.spec.errors import InputError

__all__ = ["Epoch", "Lesson", "Trained", "check_lesson"]


@dataclass(frozen=True, slots=True)
class Lesson:
    """Photos or texts, and who explains them.

    Attributes:
        fit: to learn from; labels may only be missing where all of the loss is the teacher's, or the network's own last answer's.
        tune: decides when to stop and which epoch was best; never to report on.
        facts: of the network: input and number of classes; `Facts` for photos.
        teacher: takes the same input, gives the same classes; None without one.
        soft: how the student learns from the teacher; None takes the defaults.
        unlabelled: more samples that only the teacher explains: half of each step.
        new: names of the network's tensors that were drawn anew.
        exits: how early exits learn; the network then gives (n, exits + 1, classes), its last answer last. None without exits.
        frozen: names of the network's parameters that keep their values.
    """

    fit: Data
    tune: Data
    facts: NetworkFacts
    teacher: nn.Module | None = None
    soft: SoftLabels | None = None
    unlabelled: Data | None = None
    new: tuple[str, ...] = ()
    exits: Exits | None = None
    frozen: tuple[str, ...] = ()

    @property
    def softness(self) -> SoftLabels | None:
        """How the student learns from the teacher; None without one."""
        return None if self.teacher is None else self.soft or SoftLabels()


@dataclass(frozen=True, slots=True)
class Epoch:
    """One pass over the samples to fit.

    Attributes:
        epoch: from 1.
        train_loss: mean over the pass, while the weights changed.
        train_top1: 0..1, likewise; agreement with the teacher where there are no labels.
        tune_loss: cross entropy at its end, without label smoothing; against the teacher where there are no labels.
        tune_top1: 0..1.
        learning_rate: of the last step.
        seconds: of all its steps and of the tuning.
    """

    epoch: int
    train_loss: float
    train_top1: float
    tune_loss: float
    tune_top1: float
    learning_rate: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Trained:
    """How a training went.

    Attributes:
        steps: of the optimizer.
        epochs: finished ones.
        stopped_early: whether answers and loss on samples to tune had stopped getting better.
        history: one entry an epoch.
        best_epoch: whose weights the network has now; 0 if there was none.
        aligned_maps: pairs of feature maps that were aligned with the teacher's.
    """

    steps: int
    epochs: int
    stopped_early: bool
    history: tuple[Epoch, ...]
    best_epoch: int
    aligned_maps: int = 0


def check_lesson(lesson: Lesson) -> None:
    """Refuse photos or texts that teach nothing.

    Raises:
        InputError: `no-photos`, `labels-missing`, `one-class`, `classes`, `teacher-missing`, or `features`.
    """
    for data, what in ((lesson.fit, "learn from"), (lesson.tune, "tune on")):
        if not len(data):
            raise InputError(
                f"there are no {noun(data)} to {what}",
                where=data.name,
                fix=f"give more {noun(data)} with --data",
                code=f"no-{noun(data)}",
            )
        if data.labels is None:
            _check_teacher_suffices(lesson, data, what)
    if lesson.unlabelled is not None and lesson.teacher is None:
        raise InputError(
            f"{len(lesson.unlabelled)} {noun(lesson.unlabelled)} have no labels, and there is no teacher to explain them",
            where=lesson.unlabelled.name,
            fix="name a teacher with --teacher, or leave --unlabelled out",
            code="teacher-missing",
        )
    for data in (lesson.fit, lesson.tune):
        _check_indices(data, lesson.facts)
    labels = set(lesson.fit.labels or ())
    if len(labels) == 1:
        name = lesson.fit.classes[min(labels)] if lesson.fit.classes else str(min(labels))
        raise InputError(
            f"all {len(lesson.fit)} {noun(lesson.fit)} to learn from are of one class, {name!r}: there is nothing to tell apart",
            where=lesson.fit.name,
            fix="add texts of other classes"
            if isinstance(lesson.fit, Tokens)
            else "add photos of other classes: --data DIR with one folder a class",
            code="one-class",
        )
    if isinstance(lesson.fit, Tokens) and lesson.softness is not None and lesson.softness.features:
        raise InputError(
            f"features={lesson.softness.features:g}: hidden states of networks that read texts are not aligned",
            where=lesson.facts.name,
            fix="leave the feature alignment out: SoftLabels(features=0)",
            code="features",
        )


def _check_teacher_suffices(lesson: Lesson, data: Data, what: str) -> None:
    # Exits alone can do without labels: the network that stays as it is teaches them.
    soft = lesson.exits.soft if lesson.exits is not None and not lesson.exits.joint else lesson.softness
    if soft is None or soft.share < 1:
        without = sum(sample.label is None for sample in data.samples) if isinstance(data, Dataset) else len(data)
        raise InputError(
            f"{without} of {len(data)} {noun(data)} to {what} have no label",
            where=data.name,
            fix="put them into one folder a class and name the folder of these: --data DIR"
            if not isinstance(data, Tokens)
            else "name the class of each in a column `label`",
            code="labels-missing",
        )


def _check_indices(data: Data, facts: NetworkFacts) -> None:
    highest = max(data.labels or (0,))
    if highest >= facts.classes:
        raise InputError(
            f"the {noun(data)} have labels up to {highest}, {facts.name} has {facts.classes} classes (0..{facts.classes - 1})",
            where=data.name,
            fix="fit the network to this data first, or correct the labels",
            code="classes",
        )

"""`distill`: a checkpoint -> the same network, trained on the user's photos and on what a teacher says of them."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from edgekit.build.artifact import Artifact, Pinned
from edgekit.build.facts import Facts, read_facts
from edgekit.build.network import Network
from edgekit.build.pipeline import Progress
from edgekit.build.splits import Parts, Splits
from edgekit.build.training.plan import SoftLabels, Training
from edgekit.spec.errors import InputError

if TYPE_CHECKING:
    from edgekit.build.data import Dataset

__all__ = ["Distill"]


@dataclass(frozen=True, slots=True)
class Distill:
    """Learn from labels and a teacher; a student of other classes gets a new head first. Photos to report on are not looked at.

    The teacher sees the very crops that the student sees, at the student's resolution and not at its own: both have to speak of
    the same picture, and a convolutional teacher loses little by it. Only its normalisation is its own.

    Attributes:
        network: where the student comes from.
        teacher_network: where the teacher comes from.
        teacher: its checkpoint.
        splits: the data.
        training: how long and how fast.
        soft: how much of the loss is the teacher's.
        unlabelled: photos that only the teacher explains, half of each step; those that are to tune or to report on are left out.
        purpose: what to call it among its siblings, here and in `history.json`.
    """

    network: Network
    teacher_network: Network
    teacher: Artifact
    splits: Splits
    training: Training
    soft: SoftLabels
    unlabelled: Pinned | None = None
    purpose: str = "distill"

    name: ClassVar[str] = "distill"
    version: ClassVar[int] = 3
    accepts: ClassVar[str] = "checkpoint"
    returns: ClassVar[str] = "checkpoint"
    tools: ClassVar[tuple[str, ...]] = ("torch", "torchvision", "numpy", "pillow")
    resumes: ClassVar[bool] = True

    @property
    def title(self) -> str:
        """Its name among siblings."""
        return self.purpose

    def run(self, source: Artifact, out: Path, progress: Progress, *, resume: Path | None = None) -> None:
        """Write weights, facts, structure, and `history.json` with an entry named by the purpose."""
        from edgekit.build.checkpoint import read_checkpoint, read_history, write_checkpoint
        from edgekit.build.new_head import with_head
        from edgekit.build.structure import read_structure
        from edgekit.build.training.lesson import Lesson
        from edgekit.build.training.record import classes_of, entry, facts_after, merged
        from edgekit.build.training.teacher import as_seen_by
        from edgekit.build.training.trainer import train

        progress(0.0, "opening the photos")
        parts = self.splits.open()
        facts, taught = read_facts(source.path), read_facts(self.teacher.path)
        classes = classes_of(parts.fit, facts)
        _check_teacher(taught, parts.fit, classes)
        module, replaced = with_head(replace(self.network, seed=self.training.seed), source.path, classes)
        facts = facts.with_classes(classes).uncropped()
        teacher = as_seen_by(facts, read_checkpoint(self.teacher.path, self.teacher_network), taught)
        more = self._more(parts)
        lesson = Lesson(parts.fit, parts.tune, facts, teacher, self.soft, more)
        trained = train(module, lesson, self.training, resume=resume, progress=progress)
        told = {**entry(trained, len(parts.fit)), "new": list(replaced), "teacher": taught.name}
        told |= {"unlabelled_photos": 0 if more is None else len(more), "aligned_maps": trained.aligned_maps}
        weights = f"{self.purpose}: {len(parts.fit)} photos and the answers of {taught.name}"
        facts = facts_after(facts, module, parts.fit, classes=classes, weights=weights)
        history = merged(read_history(source.path), self.purpose, told)
        write_checkpoint(out, module, facts, structure=read_structure(source.path), history=history)

    def _more(self, parts: Parts) -> "Dataset | None":
        """The unlabelled photos, without those that something is decided or reported on."""
        if self.unlabelled is None:
            return None
        from edgekit.build.data import open_data

        data = open_data(self.unlabelled.path)
        kept = {sample.sha256 for part in (parts.tune, parts.report) for sample in part.samples}
        samples = tuple(sample for sample in data.samples if sample.sha256 not in kept)
        if not samples:
            raise InputError(
                f"all {len(data)} unlabelled photos are photos to tune or to report on",
                where=data.name,
                fix="give other photos with --unlabelled, or leave it out",
                code="no-photos",
            )
        return replace(data, samples=samples)


def _check_teacher(teacher: Facts, data: "Dataset", classes: int) -> None:
    if teacher.classes != classes:
        raise InputError(
            f"the teacher {teacher.name} tells {teacher.classes} classes apart, the data has {classes}",
            where=data.name,
            fix="fit the teacher to this data first, or name another with --teacher",
            code="teacher-classes",
        )

"""`fit`: a checkpoint -> the same network, trained on the user's photos."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from edgekit.build.artifact import Artifact
from edgekit.build.facts import read_facts
from edgekit.build.network import Network
from edgekit.build.pipeline import Progress
from edgekit.build.splits import Splits
from edgekit.build.training.plan import Training

__all__ = ["Fit"]


@dataclass(frozen=True, slots=True)
class Fit:
    """Train on labels; a network of other classes gets a new head first. Photos to report on are not looked at.

    Attributes:
        network: where it comes from.
        splits: the data.
        training: how long and how fast.
    """

    network: Network
    splits: Splits
    training: Training

    name: ClassVar[str] = "fit"
    version: ClassVar[int] = 3
    accepts: ClassVar[str] = "checkpoint"
    returns: ClassVar[str] = "checkpoint"
    tools: ClassVar[tuple[str, ...]] = ("torch", "torchvision", "numpy", "pillow")
    resumes: ClassVar[bool] = True

    def run(self, source: Artifact, out: Path, progress: Progress, *, resume: Path | None = None) -> None:
        """Write weights, facts, structure, and `history.json` with an entry `fit`."""
        from edgekit.build.checkpoint import read_history, write_checkpoint
        from edgekit.build.new_head import with_head
        from edgekit.build.structure import read_structure
        from edgekit.build.training.lesson import Lesson
        from edgekit.build.training.record import classes_of, entry, facts_after, merged
        from edgekit.build.training.trainer import train

        progress(0.0, "opening the photos")
        parts = self.splits.open()
        facts = read_facts(source.path)
        classes = classes_of(parts.fit, facts)
        module, replaced = with_head(replace(self.network, seed=self.training.seed), source.path, classes)
        facts = facts.with_classes(classes).uncropped()
        lesson = Lesson(parts.fit, parts.tune, facts)
        trained = train(module, lesson, self.training, resume=resume, progress=progress)
        told = {**entry(trained, len(parts.fit)), "new": list(replaced)}
        facts = facts_after(facts, module, parts.fit, classes=classes, weights=f"fitted on {len(parts.fit)} photos")
        history = merged(read_history(source.path), "fit", told)
        write_checkpoint(out, module, facts, structure=read_structure(source.path), history=history)

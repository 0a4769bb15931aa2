"""`exits`: a checkpoint -> the same network with early exits, trained on the user's photos."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from edgekit.build.artifact import Artifact
from edgekit.build.facts import read_facts
from edgekit.build.network import Network
from edgekit.build.pipeline import Progress
from edgekit.build.splits import Splits
from edgekit.build.training.plan import Exits, Training

__all__ = ["TrainExits"]


@dataclass(frozen=True, slots=True)
class TrainExits:
    """Put small heads behind modules and train them. Photos to report on are not looked at, and none chooses a margin.

    Where the checkpoint has exits behind the same modules, they are where these begin: joint training gains by beginning with
    heads that were trained alone. Without labels the network's own answers teach.

    Attributes:
        network: where it comes from.
        splits: the data.
        training: how long and how fast.
        after: names of modules, such as a SPEC's `exits_after`; they may be in any order.
        exits: how they learn, and whether the network learns with them.
    """

    network: Network
    splits: Splits
    training: Training
    after: tuple[str, ...]
    exits: Exits = Exits()  # noqa: RUF009 - frozen

    name: ClassVar[str] = "exits"
    version: ClassVar[int] = 1
    accepts: ClassVar[str] = "checkpoint"
    returns: ClassVar[str] = "checkpoint"
    tools: ClassVar[tuple[str, ...]] = ("torch", "torchvision", "numpy", "pillow")
    resumes: ClassVar[bool] = True

    @property
    def title(self) -> str:
        """Where they sit, and who learns."""
        return f"{'network and exits' if self.exits.joint else 'exits'} after {', '.join(self.after)}"

    def run(self, source: Artifact, out: Path, progress: Progress, *, resume: Path | None = None) -> None:
        """Write what `fit` writes, and the exits; `history.json` has an entry `exits` with their accuracy on photos to tune."""
        from edgekit.build.checkpoint import read_checkpoint, read_history, write_checkpoint
        from edgekit.build.ladder.exit_checkpoint import read_exits, write_exits
        from edgekit.build.ladder.exit_training import exit_answers, new_heads, train_exits
        from edgekit.build.structure import read_structure
        from edgekit.build.training.lesson import Lesson
        from edgekit.build.training.record import entry, facts_after, merged

        facts = read_facts(source.path)
        module = read_checkpoint(source.path, self.network)
        heads = new_heads(module, self.after, classes=facts.classes, resolution_px=facts.resolution_px, seed=self.training.seed)
        known = read_exits(source.path)
        if known.keys() == heads.keys():
            heads = {place: known[place] for place in heads}
        progress(0.0, "opening the photos")
        parts = self.splits.open()
        lesson = Lesson(parts.fit, parts.tune, facts)
        trained = train_exits(module, heads, lesson, self.training, exits=self.exits, resume=resume, progress=progress)
        answers = exit_answers(module, heads, lesson).argmax(2)
        told = {**entry(trained, len(parts.fit)), "after": list(heads), "joint": self.exits.joint}
        told["agreement_with_last"] = [float((column == answers[:, -1]).double().mean()) for column in answers.T]
        if parts.tune.labels is not None:
            told["tune_top1_each"] = [float((column.numpy() == parts.tune.labels).mean()) for column in answers.T]
        if self.exits.joint:
            weights = f"exits: {len(parts.fit)} photos"
            facts = facts_after(facts, module, parts.fit, classes=facts.classes, weights=weights)
        history = merged(read_history(source.path), self.name, told)
        write_checkpoint(out, module, facts, structure=read_structure(source.path), history=history)
        write_exits(out, heads)

"""`text-exits`: a checkpoint of a network that reads text -> the same network with early exits, trained on the user's texts."""

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from edgekit.build.artifact import Artifact
from edgekit.build.pipeline import Progress
from edgekit.build.text.splits import TextSplits
from edgekit.build.training.plan import TEXT_TRAINING, Exits, SoftLabels, Training

__all__ = ["TEXT_EXITS", "TEXT_EXIT_TRAINING", "TrainTextExits"]

TEXT_EXIT_TRAINING = replace(TEXT_TRAINING, learning_rate=1e-4)
"""For a network that is fitted already: half the rate of a fit, so that its last answer stays as good; heads learn ten times
faster."""

TEXT_EXITS = Exits(weights=(), soft=SoftLabels(share=0.5), joint=True)
"""Together with the network: states behind its early layers were never made to be read by a classifier."""

TEXT_RECALL = SoftLabels(temperature=2.0, share=0.7)
"""How much of the last answer's loss is what the network answered before."""


@dataclass(frozen=True, slots=True)
class TrainTextExits:
    """Put small heads behind layers and train them, and the network with them, taught by its own last answer.

    Texts to report on are not looked at. Where the checkpoint has such exits behind the same layers, they are where these begin.

    Attributes:
        splits: the data, of the classes that the network tells apart.
        training: how long and how fast.
        after: numbers of layers, from 1, in any order; none takes those after one and two thirds.
        exits: how they learn, and whether the network learns with them.
    """

    splits: TextSplits
    training: Training = TEXT_EXIT_TRAINING
    after: tuple[str, ...] = ()
    exits: Exits = TEXT_EXITS

    name: ClassVar[str] = "text-exits"
    version: ClassVar[int] = 2
    accepts: ClassVar[str] = "checkpoint"
    returns: ClassVar[str] = "checkpoint"
    tools: ClassVar[tuple[str, ...]] = ("torch", "tokenizers", "numpy")
    resumes: ClassVar[bool] = True

    @property
    def title(self) -> str:
        """Where they sit."""
        return f"exits after layers {', '.join(self.after)}" if self.after else "exits"

    def run(self, source: Artifact, out: Path, progress: Progress, *, resume: Path | None = None) -> None:
        """Write what `fit-text` writes, and the exits; `history.json` has an entry `text-exits` with their accuracy.

        Raises:
            InputError: `exit-layer`, or the texts cannot teach.
        """
        from edgekit.build.checkpoint import read_history
        from edgekit.build.stages.fit_text import encoded
        from edgekit.build.text.checkpoint import read_text_checkpoint, write_text_checkpoint
        from edgekit.build.text.exit_checkpoint import read_text_exits, write_text_exits
        from edgekit.build.text.exits import StagedText, new_text_exits, train_text_exits
        from edgekit.build.training.evaluate import evaluate
        from edgekit.build.training.lesson import Lesson
        from edgekit.build.training.record import entry, facts_after, merged

        progress(0.0, "opening the texts")
        module, facts, tokenizer = read_text_checkpoint(source.path)
        heads = new_text_exits(module, self.after, seed=self.training.seed)
        known = read_text_exits(source.path)
        if known.keys() == heads.keys():
            heads = known
        fit, tune = encoded(self.splits.open(), tokenizer, facts)
        # What the network answered before holds its last answer where it was while its early layers learn something else.
        lesson = Lesson(fit, tune, facts, copy.deepcopy(module), TEXT_RECALL) if self.exits.joint else Lesson(fit, tune, facts)
        before = evaluate(module, tune, facts).argmax(1)
        trained = train_text_exits(module, heads, lesson, self.training, exits=self.exits, resume=resume, progress=progress)
        answers = evaluate(StagedText(module, heads, joint=False), tune, facts).argmax(2)
        told = {**entry(trained, len(fit), of="texts"), "after": list(heads), "joint": self.exits.joint}
        told["agreement_with_last"] = [float((column == answers[:, -1]).mean()) for column in answers.T]
        if tune.labels is not None:
            told["tune_top1_each"] = [float((column == tune.labels).mean()) for column in answers.T]
            told["tune_top1_before"] = float((before == tune.labels).mean())
        if self.exits.joint:
            facts = facts_after(facts, module, fit, classes=facts.classes, weights=f"exits: {len(fit)} texts")
        history = merged(read_history(source.path), self.name, told)
        write_text_checkpoint(out, module, facts, tokenizer=tokenizer, history=history)
        write_text_exits(out, heads)

"""`recalibrate`: a checkpoint -> the same network for another resolution, with batch-norm statistics of it where these pay."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

from edgekit.build.artifact import Artifact
from edgekit.build.facts import read_facts
from edgekit.build.network import Network
from edgekit.build.pipeline import Progress
from edgekit.build.splits import Splits
from edgekit.spec.errors import InputError

__all__ = ["STATISTICS", "Recalibrate", "shares_weights"]

STATISTICS = ("auto", "shared", "own")


@dataclass(frozen=True, slots=True)
class Recalibrate:
    """Statistics from photos to fit, judged on photos to tune; those to report on are not looked at. Exits go along.

    Attributes:
        network: where it comes from.
        splits: the data.
        resolution_px: of the rung.
        statistics: `shared` keeps the weights, so that rungs of one payload share them; `own` takes those of this resolution;
            `auto` shares unless its own are significantly better.
    """

    network: Network
    splits: Splits
    resolution_px: int
    statistics: str = "auto"

    name: ClassVar[str] = "recalibrate"
    version: ClassVar[int] = 1
    accepts: ClassVar[str] = "checkpoint"
    returns: ClassVar[str] = "checkpoint"
    tools: ClassVar[tuple[str, ...]] = ("torch", "torchvision", "numpy", "pillow")

    @property
    def title(self) -> str:
        """For what resolution."""
        return f"{self.resolution_px} px"

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write a checkpoint for this resolution; `history.json` has an entry `recalibrate` with both accuracies and the choice.

        Raises:
            InputError: `resolutions`, or `statistics` for an unknown name.
        """
        from edgekit.build.checkpoint import read_checkpoint, read_history, write_checkpoint
        from edgekit.build.ladder.exit_checkpoint import copy_exits
        from edgekit.build.ladder.resolution_check import check_resolutions
        from edgekit.build.ladder.resolutions import choose_statistics
        from edgekit.build.structure import read_structure
        from edgekit.build.training.record import merged

        if self.statistics not in STATISTICS:
            raise InputError(
                f"unknown choice of statistics {self.statistics!r}",
                where="recalibrate",
                fix=f"use one of {', '.join(STATISTICS)}",
                code="statistics",
            )
        facts = read_facts(source.path)
        module = read_checkpoint(source.path, self.network)
        told: dict[str, object] = {"resolution_px": self.resolution_px, "statistics": "shared"}
        if self.statistics == "shared":
            check_resolutions(module, (self.resolution_px,), name=facts.name)
        else:
            progress(0.0, "opening the photos")
            parts = self.splits.open()
            own, found = choose_statistics(
                module,
                parts,
                facts,
                resolution_px=self.resolution_px,
                seen=lambda done: progress(0.5 * done / len(parts.fit), f"statistics of photo {done}"),
            )
            told |= asdict(found)
            if self.statistics == "own" or found.own:
                module, told["statistics"] = own, "own"
        history = merged(read_history(source.path), self.name, told)
        write_checkpoint(out, module, facts.at(self.resolution_px), structure=read_structure(source.path), history=history)
        copy_exits(source.path, out)


def shares_weights(first: Path, second: Path) -> bool:
    """Whether two checkpoints hold the same tensors, so that one payload can hold them once."""
    import torch

    from edgekit.build.checkpoint import WEIGHTS

    one, two = (torch.load(folder / WEIGHTS, weights_only=True) for folder in (first, second))
    return one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)

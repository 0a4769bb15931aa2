"""Which photos a network is fitted, decided and reported on, as a value that can be part of a stage's key."""

from dataclasses import dataclass
from pathlib import Path

from edgekit.build.artifact import Pinned
from edgekit.build.data import Parts, open_splits

__all__ = ["Parts", "Splits", "choose_splits"]


@dataclass(frozen=True, slots=True)
class Splits:
    """The user's data in three parts.

    Attributes:
        folder: where it lies, pinned by the digest of all parts.
        seed: of the choice.
        trains: whether the network is trained on it, see `data.open_splits`.
        classes: names of the classes; empty where the data does not say.
        labelled: whether every photo has a label.
    """

    folder: Pinned
    seed: int
    trains: bool
    classes: tuple[str, ...]
    labelled: bool

    def open(self) -> Parts:
        """The three parts."""
        return open_splits(self.folder.path, seed=self.seed, trains=self.trains)


def choose_splits(folder: Path, *, seed: int, trains: bool) -> tuple[Splits, Parts]:
    """Open the data once, to learn what it is.

    Raises:
        InputError: see `data.open_splits`.
    """
    parts = open_splits(folder, seed=seed, trains=trains)
    each = (parts.fit, parts.tune, parts.report)
    digest = "-".join(part.digest for part in each)
    return Splits(Pinned(folder, digest), seed, trains, parts.fit.classes, all(part.labels is not None for part in each)), parts

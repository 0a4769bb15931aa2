"""Which photos a network is fitted, decided and reported on, as a value that can be part of a stage's key."""

from dataclasses import dataclass, replace
from pathlib import Path

from edgekit.build.artifact import Pinned
from edgekit.build.data import Dataset, Parts, open_splits

__all__ = ["Parts", "Splits", "choose_splits"]


@dataclass(frozen=True, slots=True)
class Splits:
    """The user's data in three parts.

    Attributes:
        folder: where it lies, pinned by the digest of all parts.
        seed: of the choice.
        trains: whether the network is trained on it, see `data.open_splits`.
        classes: names of the classes, to which labels are indices; empty where nobody says. May be those of a network that knows
            more classes than the data holds, see `matched`.
        labelled: whether every photo has a label that means something.
    """

    folder: Pinned
    seed: int
    trains: bool
    classes: tuple[str, ...]
    labelled: bool

    def open(self) -> Parts:
        """The three parts."""
        parts = open_splits(self.folder.path, seed=self.seed, trains=self.trains)
        return Parts(*(self._seen(part) for part in (parts.fit, parts.tune, parts.report)))

    def _seen(self, data: Dataset) -> Dataset:
        if not self.labelled:
            return data.without_labels()
        return data if data.classes == self.classes else data.with_classes(self.classes)

    def matched(self, names: tuple[str, ...], outputs: int) -> "Splits":
        """The same photos, with the indices of a network's outputs for labels; without labels where its classes are others.

        Args:
            names: of the network's classes; may be empty.
            outputs: of the network; 0 while unknown.
        """
        if not self.classes or self.classes == names:
            return self
        if set(self.classes) <= set(names):
            return replace(self, classes=names)
        return self if outputs in (0, len(self.classes)) else replace(self, classes=(), labelled=False)


def choose_splits(folder: Path, *, seed: int, trains: bool) -> tuple[Splits, Parts]:
    """Open the data once, to learn what it is.

    Raises:
        InputError: see `data.open_splits`.
    """
    parts = open_splits(folder, seed=seed, trains=trains)
    each = (parts.fit, parts.tune, parts.report)
    digest = "-".join(part.digest for part in each)
    return Splits(Pinned(folder, digest), seed, trains, parts.fit.classes, all(part.labels is not None for part in each)), parts

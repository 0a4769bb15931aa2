"""Which texts a network is fitted, decided and reported on, as a value that can be part of a stage's key."""

from dataclasses import dataclass
from pathlib import Path

from edgekit.build.artifact import Pinned
from edgekit.build.data.texts import TextParts, open_text_splits

__all__ = ["TextSplits", "choose_text_splits"]


@dataclass(frozen=True, slots=True)
class TextSplits:
    """The user's texts in three parts.

    Attributes:
        folder: where they lie, pinned by the digest of all parts.
        seed: of the choice.
        trains: whether the network is trained on them, see `open_text_splits`.
        classes: names of the classes, to which labels are indices.
    """

    folder: Pinned
    seed: int
    trains: bool
    classes: tuple[str, ...]

    def open(self) -> TextParts:
        """The three parts."""
        return open_text_splits(self.folder.path, seed=self.seed, trains=self.trains)


def choose_text_splits(path: Path, *, seed: int, trains: bool) -> tuple[TextSplits, TextParts]:
    """Open the texts once, to learn what they are.

    Raises:
        InputError: see `open_text_splits`.
    """
    parts = open_text_splits(path, seed=seed, trains=trains)
    digest = "-".join(part.digest for part in (parts.fit, parts.tune, parts.report))
    return TextSplits(Pinned(path, digest), seed, trains, parts.fit.classes), parts

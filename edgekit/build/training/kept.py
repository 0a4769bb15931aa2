"""What a part of a network that does not learn says of photos, kept so that it runs once and not once an epoch."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.utils.data import Dataset as TorchDataset

from edgekit.build.training.samples import NO_LABEL, Key

__all__ = ["Kept", "KeptSamples"]


@dataclass(frozen=True, slots=True)
class Kept:
    """Rows of numbers in place of photos.

    Attributes:
        name: of the data set they were made of.
        rows: (n, width) float32.
        labels: class index of every row; None without labels.
        classes: name of each class index; empty where the data does not say.
        digest: of data and network.
    """

    name: str
    rows: Tensor = field(repr=False, compare=False)
    labels: tuple[int, ...] | None
    classes: tuple[str, ...]
    digest: str

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.rows)

    def without_labels(self) -> "Kept":
        """The same rows, of which nobody says what they are."""
        return Kept(self.name, self.rows, None, (), self.digest)


class KeptSamples(TorchDataset[tuple[Tensor, int]]):
    """`Key` -> ((width,) float32, class index or `NO_LABEL`)."""

    def __init__(self, parts: Sequence[Kept]) -> None:
        """Data sets for one network."""
        self.parts = tuple(parts)

    def __getitem__(self, key: Key) -> tuple[Tensor, int]:
        """One row."""
        data = self.parts[key[0]]
        return data.rows[key[2]], NO_LABEL if data.labels is None else data.labels[key[2]]

    def collate(self, items: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
        """-> (n, width) float32 and (n,) int64."""
        return torch.stack([row for row, _ in items]), torch.tensor([label for _, label in items])

    def prepare(self, batch: Tensor) -> Tensor:
        """What learns takes the rows as they are."""
        return batch

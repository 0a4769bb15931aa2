"""What a training learns from, photos, rows kept of them, or texts, as the trainer sees it: only here are they told apart."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from edgekit.build.data import Dataset, Tokens
from edgekit.build.training.kept import Kept, KeptSamples
from edgekit.build.training.samples import Key, Samples
from edgekit.build.training.token_samples import TokenSamples

__all__ = ["Data", "Material", "NetworkFacts", "example", "lengths_of", "material_of", "noun"]

Data = Dataset | Tokens | Kept


class NetworkFacts(Protocol):
    """What a training has to know of the network, whatever it reads."""

    @property
    def name(self) -> str:
        """Of the model."""
        ...

    @property
    def classes(self) -> int:
        """Outputs."""
        ...


class Material(Protocol):
    """Samples by key, their batches, and the way from a batch to the network's input."""

    def __getitem__(self, key: Key) -> tuple[Any, int]:
        """(one sample, class index or `NO_LABEL`)."""
        ...

    def collate(self, items: list[tuple[Any, int]]) -> tuple[Tensor, Tensor]:
        """Samples of a step -> (batch, labels (n,) int64)."""
        ...

    def prepare(self, batch: Tensor) -> Tensor:
        """A batch, or a part of one, on the network's device -> the network's input."""
        ...


def material_of(parts: Sequence[Data], facts: Any, *, seed: int, augment: bool) -> Material:
    """Of data sets of one kind; texts are never augmented."""
    tokens = [part for part in parts if isinstance(part, Tokens)]
    if tokens:
        return TokenSamples(tokens)
    rows = [part for part in parts if isinstance(part, Kept)]
    if rows:
        return KeptSamples(rows)
    return Samples([part for part in parts if isinstance(part, Dataset)], facts, seed=seed, augment=augment)


def example(data: Data, facts: Any, *, device: str) -> Tensor:
    """Zeros to try a network on: (2, 3, side, side) float32 for photos, (2, width) for rows of them, (2, 8) int64 for texts."""
    if isinstance(data, Tokens):
        return torch.zeros(2, 8, dtype=torch.int64, device=device)
    if isinstance(data, Kept):
        return torch.zeros(2, data.rows.shape[1], device=device)
    return torch.zeros(2, 3, facts.resolution_px, facts.resolution_px, device=device)


def lengths_of(data: Data) -> tuple[int, ...]:
    """Tokens of each text; empty where all samples are of one size."""
    return data.lengths if isinstance(data, Tokens) else ()


def noun(data: Data) -> str:
    """What to call its samples in messages."""
    return "texts" if isinstance(data, Tokens) else "photos"

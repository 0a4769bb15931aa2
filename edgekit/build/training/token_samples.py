"""Texts for a training, by the keys that photos have. They are not augmented, so only their order depends on the epoch."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils.data import Dataset as TorchDataset

from edgekit.build.data import Tokens, padded
from edgekit.build.training.samples import NO_LABEL, Key

__all__ = ["TokenSamples"]


class TokenSamples(TorchDataset[tuple[tuple[int, ...], int]]):
    """`Key` -> (ids, class index or `NO_LABEL`)."""

    def __init__(self, parts: Sequence[Tokens]) -> None:
        """Data sets for one network, cut to one greatest length."""
        self.parts = tuple(parts)
        self.max_tokens = max(part.max_tokens for part in parts)

    def __getitem__(self, key: Key) -> tuple[tuple[int, ...], int]:
        """One text."""
        part, _, index = key[:3]
        data = self.parts[part]
        return data.ids[index], NO_LABEL if data.labels is None else data.labels[index]

    def collate(self, items: list[tuple[tuple[int, ...], int]]) -> tuple[Tensor, Tensor]:
        """-> (n, length) int64 ids, -1 behind shorter texts, and (n,) int64 labels."""
        ids = padded([ids for ids, _ in items], max_tokens=self.max_tokens)
        return torch.from_numpy(ids), torch.tensor([label for _, label in items])

    def prepare(self, batch: Tensor) -> Tensor:
        """The network takes the ids as they are."""
        return batch

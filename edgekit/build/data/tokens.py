"""Texts as the ids of their tokens: what a network is trained and judged on, whoever cut the texts into tokens."""

import dataclasses
import hashlib
from collections.abc import Sequence

import numpy as np

__all__ = ["PADDING", "Tokens", "padded"]

PADDING = -1
"""In place of an id where a text of a batch is shorter than the longest; networks derive their mask from it."""

_MULTIPLE = 8
"""Lengths of batches: kernels are made for such, and few lengths mean few allocations."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tokens:
    """Texts in a fixed order, each at most `max_tokens` long.

    Attributes:
        name: what to call it in messages.
        ids: of each text.
        max_tokens: to which longer texts were cut.
        labels: class index of each; None where nobody says.
        classes: name of each class index; empty where the data does not say.
        truncated: number of texts that were cut.
    """

    name: str
    ids: tuple[tuple[int, ...], ...] = dataclasses.field(repr=False)
    max_tokens: int
    labels: tuple[int, ...] | None = None
    classes: tuple[str, ...] = ()
    truncated: int = 0

    def __len__(self) -> int:
        """Number of texts."""
        return len(self.ids)

    @property
    def digest(self) -> str:
        """SHA-256 over ids, labels, their order and the greatest length."""
        total = hashlib.sha256(f"{self.max_tokens}\n".encode())
        for i, ids in enumerate(self.ids):
            total.update(f"{' '.join(map(str, ids))} {None if self.labels is None else self.labels[i]}\n".encode())
        return total.hexdigest()

    @property
    def lengths(self) -> tuple[int, ...]:
        """Tokens of each text."""
        return tuple(len(ids) for ids in self.ids)

    def without_labels(self) -> "Tokens":
        """The same texts, of which nobody says what they mean."""
        return dataclasses.replace(self, labels=None, classes=())

    def chosen(self, places: Sequence[int]) -> "Tokens":
        """Those at `places`, in that order."""
        labels = None if self.labels is None else tuple(self.labels[i] for i in places)
        return dataclasses.replace(self, ids=tuple(self.ids[i] for i in places), labels=labels)


def padded(ids: Sequence[Sequence[int]], *, max_tokens: int) -> np.ndarray:
    """Ids of n texts -> (n, length) int64, the length of the longest rounded up to a multiple of 8, at most `max_tokens`."""
    longest = max(map(len, ids), default=0)
    length = max(longest, min(max_tokens, -(-longest // _MULTIPLE) * _MULTIPLE))
    out = np.full((len(ids), length), PADDING, np.int64)
    for row, one in zip(out, ids, strict=True):
        row[: len(one)] = one
    return out

"""Which samples make up each step: it depends on seed, epoch and step alone, never on the past."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from edgekit.build.training.seeds import GROUPS, ORDER, SIDES, seed_of

__all__ = ["Key", "Order"]

Key = tuple[int, int, int] | tuple[int, int, int, int]
"""(which data set, how often it was passed over, index), and the side of the photo in pixels where that changes."""

_POOL = 16
"""Steps whose texts are sorted by length among themselves: most of the padding goes, most of the chance stays."""


@dataclass(frozen=True, slots=True)
class Order:
    """Which photos make up each step.

    Attributes:
        photos: of the first data set, each of which comes once an epoch.
        unlabelled: of the second one, from which half of every step is taken in turn; 0 without one.
        batch_size: photos a step.
        seed: of the orders.
        lengths: of the first data set's samples, where they differ: steps are then made of samples of like length.
        resolutions_px: sides of photos, of which each step has one; empty where all photos have the network's.
    """

    photos: int
    unlabelled: int
    batch_size: int
    seed: int
    lengths: tuple[int, ...] = ()
    resolutions_px: tuple[int, ...] = ()

    @property
    def steps(self) -> int:
        """Of one epoch. They are equally large but for one photo: a step of a few left over would shake batch norms."""
        return math.ceil(self.photos / max(1, self.batch_size - self._extra))

    @property
    def _extra(self) -> int:
        return max(1, self.batch_size // 2) if self.unlabelled else 0

    def batches(self, epoch: int, *, start: int = 0) -> list[list[Key]]:
        """The keys of every step of an epoch (from 1), from step `start` on."""
        chunks = np.array_split(self._permutation(0, epoch, self.photos), self.steps)
        if self.lengths:
            chunks = self._grouped(chunks, epoch)
        steps: list[list[Key]] = [[(0, epoch, int(i)) for i in chunk] for chunk in chunks]
        if self.unlabelled:
            taken = self._endless((epoch - 1) * self.steps * self._extra)
            steps = [[*keys, *(next(taken) for _ in range(self._extra))] for keys in steps]
        if self.resolutions_px:
            first = (epoch - 1) * self.steps
            steps = [[(*key[:3], self._side(first + i)) for key in keys] for i, keys in enumerate(steps)]
        return steps[start:]

    def _side(self, step: int) -> int:
        """Of the photos of a step, counted over all epochs: each comes once in as many steps as there are sides."""
        lap, place = divmod(step, len(self.resolutions_px))
        order = np.random.default_rng(seed_of(self.seed, SIDES, lap)).permutation(len(self.resolutions_px))
        return self.resolutions_px[order[place]]

    def _grouped(self, chunks: list[np.ndarray], epoch: int) -> list[np.ndarray]:
        """The same samples in steps of the same sizes, each of like lengths; the steps in an order drawn anew."""
        lengths, grouped = np.asarray(self.lengths), []
        for first in range(0, len(chunks), _POOL):
            pool = chunks[first : first + _POOL]
            whole = np.concatenate(pool)
            whole = whole[np.argsort(lengths[whole], kind="stable")]
            grouped += np.split(whole, np.cumsum([len(chunk) for chunk in pool])[:-1])
        places = np.random.default_rng(seed_of(self.seed, GROUPS, epoch)).permutation(len(grouped))
        return [grouped[place] for place in places]

    def _endless(self, place: int) -> Iterator[Key]:
        """Unlabelled photos from the `place`-th on; after each pass in another order."""
        lap, offset = divmod(place, self.unlabelled)
        while True:
            for i in self._permutation(1, lap, self.unlabelled)[offset:]:
                yield (1, lap, int(i))
            lap, offset = lap + 1, 0

    def _permutation(self, part: int, lap: int, n: int) -> np.ndarray:
        return np.random.default_rng(seed_of(self.seed, ORDER, part, lap)).permutation(n)

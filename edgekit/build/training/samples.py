"""Photos for a training. What each looks like and when it comes depends on seed, epoch and index alone, never on the past."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset
from torchvision.transforms import InterpolationMode, v2

from edgekit.build.data import Dataset, Sample
from edgekit.build.data.dataset import decode
from edgekit.build.facts import Facts
from edgekit.build.training.device import workers
from edgekit.build.training.seeds import ORDER, PHOTO, seed_of

__all__ = ["NO_LABEL", "Key", "Order", "Samples", "loader", "normalise"]

NO_LABEL = -1

Key = tuple[int, int, int]
"""(which data set, how often it was passed over, index)."""

_LEAST_AREA = 0.6
"""Of a crop. ImageNet's usual 0.08 is made for millions of photos and hundreds of epochs; with some thousand photos and sixteen
epochs 0.6 leaves half a point more right answers on photos that were held out than 0.35 does (docs/compression.md)."""


class Samples(TorchDataset[tuple[np.ndarray, int]]):
    """`Key` -> ((resolution, resolution, 3) uint8, class index or `NO_LABEL`)."""

    def __init__(self, parts: Sequence[Dataset], facts: Facts, *, seed: int, augment: bool) -> None:
        """Without `augment` photos are prepared as at run time, bit for bit."""
        self.parts, self.facts, self.seed = tuple(parts), facts, seed
        self.augmentation = _augmentation(facts) if augment else None

    def __getitem__(self, key: Key) -> tuple[np.ndarray, int]:
        """One photo."""
        part, epoch, index = key
        data, facts = self.parts[part], self.facts
        sample = data.samples[index]
        label = NO_LABEL if sample.label is None else sample.label
        if self.augmentation is None:
            size = {"resolution_px": facts.resolution_px, "resize_px": facts.resize_px}
            return data.pixels(sample, **size, filter=facts.filter), label
        photo = Image.fromarray(_photo(data, sample))
        # The transforms draw from torch's generator and take no other.
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed_of(self.seed, PHOTO, part, epoch, index))
            return np.array(self.augmentation(photo)), label


def _augmentation(facts: Facts) -> v2.Compose:
    mode = InterpolationMode.BICUBIC if facts.filter == "bicubic" else InterpolationMode.BILINEAR
    size = (facts.resolution_px, facts.resolution_px)
    crop = v2.RandomResizedCrop(size, scale=(_LEAST_AREA, 1.0), interpolation=mode)
    return v2.Compose([crop, v2.RandomHorizontalFlip(), v2.ColorJitter(brightness=0.2, contrast=0.2, saturation=0.2)])


def _photo(data: Dataset, sample: Sample) -> np.ndarray:
    """-> (height, width, 3) uint8: all of the picture, at its own size."""
    if isinstance(sample.source, int):
        photo = np.asarray(data.array)[sample.source]
    else:
        photo = decode(sample.source.read_bytes(), sample.source)
    crop = sample.crop
    if crop is not None:
        photo = photo[crop.top : crop.top + crop.side, crop.left : crop.left + crop.side]
        photo = photo[:, ::-1] if crop.flip else photo
    return np.ascontiguousarray(photo)


@dataclass(frozen=True, slots=True)
class Order:
    """Which photos make up each step.

    Attributes:
        photos: of the first data set, each of which comes once an epoch.
        unlabelled: of the second one, from which half of every step is taken in turn; 0 without one.
        batch_size: photos a step.
        seed: of the orders.
    """

    photos: int
    unlabelled: int
    batch_size: int
    seed: int

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
        steps = [[(0, epoch, int(i)) for i in chunk] for chunk in chunks]
        if self.unlabelled:
            taken = self._endless((epoch - 1) * self.steps * self._extra)
            steps = [[*keys, *(next(taken) for _ in range(self._extra))] for keys in steps]
        return steps[start:]

    def _endless(self, place: int) -> Iterator[Key]:
        """Unlabelled photos from the `place`-th on; after each pass in another order."""
        lap, offset = divmod(place, self.unlabelled)
        while True:
            for i in self._permutation(1, lap, self.unlabelled)[offset:]:
                yield (1, lap, int(i))
            lap, offset = lap + 1, 0

    def _permutation(self, part: int, lap: int, n: int) -> np.ndarray:
        return np.random.default_rng(seed_of(self.seed, ORDER, part, lap)).permutation(n)


def loader(samples: Samples, batches: list[list[Key]], *, device: str) -> DataLoader[tuple[torch.Tensor, torch.Tensor]]:
    """-> batches of (n, resolution, resolution, 3) uint8 and (n,) int64, read ahead by other processes where that pays."""
    count = min(workers(device), len(batches))
    # Without a generator of its own it would draw from torch's, and so change what a network draws after it.
    generator = torch.Generator().manual_seed(0)
    return DataLoader(
        samples,
        batch_sampler=batches,
        num_workers=count,
        prefetch_factor=4 if count else None,
        collate_fn=_collate,
        pin_memory=device == "cuda",
        generator=generator,
    )


def _collate(items: list[tuple[np.ndarray, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(np.stack([pixels for pixels, _ in items])), torch.tensor([label for _, label in items])


def normalise(pixels: torch.Tensor, facts: Facts) -> torch.Tensor:
    """(n, height, width, 3) uint8 -> (n, 3, height, width) float32 on the same device, equal to `tensors.to_tensor`."""
    # float64 as there: one rounding, so that both give the same bits.
    mean = torch.tensor(facts.mean, dtype=torch.float64, device=pixels.device)
    std = torch.tensor(facts.std, dtype=torch.float64, device=pixels.device)
    return ((pixels.double() - mean) / std).float().permute(0, 3, 1, 2).contiguous()

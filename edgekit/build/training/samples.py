"""Photos for a training. What each looks like and when it comes depends on seed, epoch and index alone, never on the past."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from edgekit.build.data import Dataset, Sample
from edgekit.build.data.dataset import decode
from edgekit.build.facts import Facts
from edgekit.build.training.device import workers
from edgekit.build.training.order import Key, Order
from edgekit.build.training.seeds import PHOTO, seed_of

if TYPE_CHECKING:
    from edgekit.build.training.material import Material

__all__ = ["NO_LABEL", "Key", "Order", "Samples", "loader", "normalise"]

NO_LABEL = -1

_LEAST_AREA = 0.6
"""Of a crop. ImageNet's usual 0.08 is made for millions of photos and hundreds of epochs; with some thousand photos and sixteen
epochs 0.6 leaves half a point more right answers on photos that were held out than 0.35 does (docs/compression.md)."""


class Samples(TorchDataset[tuple[np.ndarray, int]]):
    """`Key` -> ((side, side, 3) uint8, class index or `NO_LABEL`); the side is the key's, else the network's resolution."""

    def __init__(self, parts: Sequence[Dataset], facts: Facts, *, seed: int, augment: bool) -> None:
        """Without `augment` photos are prepared as at run time, bit for bit."""
        self.parts, self.facts, self.seed = tuple(parts), facts, seed
        self.augmentations = {facts.resolution_px: _Augmentation(facts)} if augment else {}

    def __getitem__(self, key: Key) -> tuple[np.ndarray, int]:
        """One photo."""
        part, epoch, index, *side = key
        data, facts = self.parts[part], self.facts.at(*side) if side else self.facts
        sample = data.samples[index]
        label = NO_LABEL if sample.label is None else sample.label
        if not self.augmentations:
            size = {"resolution_px": facts.resolution_px, "resize_px": facts.resize_px}
            return data.pixels(sample, **size, filter=facts.filter), label
        if facts.resolution_px not in self.augmentations:
            self.augmentations[facts.resolution_px] = _Augmentation(facts)
        # The transforms draw from torch's generator and take no other.
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed_of(self.seed, PHOTO, part, epoch, index))
            return self.augmentations[facts.resolution_px](_photo(data, sample)), label

    def collate(self, items: list[tuple[np.ndarray, int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """-> (n, side, side, 3) uint8 and (n,) int64; photos of one step have one side."""
        return torch.from_numpy(np.stack([pixels for pixels, _ in items])), torch.tensor([label for _, label in items])

    def prepare(self, batch: torch.Tensor) -> torch.Tensor:
        """See `normalise`."""
        return normalise(batch, self.facts)


class _Augmentation:
    """(height, width, 3) uint8 -> (resolution, resolution, 3) uint8, another one for every state of torch's generator."""

    def __init__(self, facts: Facts) -> None:
        # Here, since texts are also learned where there is no torchvision.
        from torchvision.transforms import InterpolationMode, v2

        mode = InterpolationMode.BICUBIC if facts.filter == "bicubic" else InterpolationMode.BILINEAR
        size = (facts.resolution_px, facts.resolution_px)
        crop = v2.RandomResizedCrop(size, scale=(_LEAST_AREA, 1.0), interpolation=mode)
        self.change = v2.Compose([crop, v2.RandomHorizontalFlip(), v2.ColorJitter(brightness=0.2, contrast=0.2, saturation=0.2)])

    def __call__(self, photo: np.ndarray) -> np.ndarray:
        from PIL import Image

        return np.array(self.change(Image.fromarray(photo)))


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


def loader(samples: "Material", batches: list[list[Key]], *, device: str) -> DataLoader[Any]:
    """-> (batch, labels) of each list of keys, as `samples` collates them; read ahead by other processes where that pays."""
    count = min(workers(device), len(batches))
    # Without a generator of its own it would draw from torch's, and so change what a network draws after it.
    generator = torch.Generator().manual_seed(0)
    return DataLoader(
        samples,
        batch_sampler=batches,
        num_workers=count,
        prefetch_factor=4 if count else None,
        collate_fn=samples.collate,
        pin_memory=device == "cuda",
        generator=generator,
    )


def normalise(pixels: torch.Tensor, facts: Facts) -> torch.Tensor:
    """(n, height, width, 3) uint8 -> (n, 3, height, width) float32 on the same device, equal to `tensors.to_tensor`."""
    # float64 as there: one rounding, so that both give the same bits.
    mean = torch.tensor(facts.mean, dtype=torch.float64, device=pixels.device)
    std = torch.tensor(facts.std, dtype=torch.float64, device=pixels.device)
    return ((pixels.double() - mean) / std).float().permute(0, 3, 1, 2).contiguous()

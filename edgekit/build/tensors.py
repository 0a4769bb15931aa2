"""Pixels -> the float tensors that calibration and the float network take."""

from collections.abc import Iterator

import numpy as np
import torch

from edgekit.build.data import Dataset
from edgekit.build.facts import Facts

__all__ = ["batches", "pictures", "to_tensor"]


def to_tensor(pixels: np.ndarray, facts: Facts) -> torch.Tensor:
    """(n, height, width, 3) uint8 -> (n, 3, height, width) float32: (pixel - mean) / std."""
    mean = np.asarray(facts.mean, np.float64)
    std = np.asarray(facts.std, np.float64)
    real = ((pixels.astype(np.float64) - mean) / std).astype(np.float32)
    return torch.from_numpy(np.ascontiguousarray(real.transpose(0, 3, 1, 2)))


def pictures(data: Dataset, facts: Facts) -> np.ndarray:
    """A data set -> (n, resolution, resolution, 3) uint8."""
    return data.images(resolution_px=facts.resolution_px, resize_px=facts.resize_px, filter=facts.filter)


def batches(data: Dataset, facts: Facts, *, size: int = 1) -> Iterator[torch.Tensor]:
    """A data set -> (size, 3, resolution, resolution) float32, one after the other."""
    waiting: list[np.ndarray] = []
    for image in data.iter_images(resolution_px=facts.resolution_px, resize_px=facts.resize_px, filter=facts.filter):
        waiting.append(image)
        if len(waiting) == size:
            yield to_tensor(np.stack(waiting), facts)
            waiting = []
    if waiting:
        yield to_tensor(np.stack(waiting), facts)

"""Golden images: photos, and the extremes that photos do not reach."""

import numpy as np

from edgekit.build.data import Dataset
from edgekit.build.facts import Facts

__all__ = ["EXTREMES", "PHOTOS", "golden_images"]

PHOTOS = 8
EXTREMES = 4


def golden_images(data: Dataset, facts: Facts) -> np.ndarray:
    """(n, resolution, resolution, 3) uint8: at most 8 photos, then black, white, noise and a ramp.

    Black and white drive the first layers to their ends, noise drives every channel, the ramp holds every pixel value: what a
    wrong saturation, a wrong table entry or a swapped channel changes.
    """
    size = facts.resolution_px
    photos = data.take(PHOTOS).images(resolution_px=size, resize_px=facts.resize_px, filter=facts.filter)
    black = np.zeros((size, size, 3), np.uint8)
    white = np.full((size, size, 3), 255, np.uint8)
    noise = np.random.default_rng(0).integers(0, 256, (size, size, 3), np.uint8)
    along, down = np.meshgrid(np.arange(size), np.arange(size))
    ramp = np.stack([along % 256, down % 256, (along + down) % 256], axis=-1).astype(np.uint8)
    return np.concatenate([photos, np.stack([black, white, noise, ramp])])

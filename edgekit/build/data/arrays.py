"""Read pictures from an `.npz`."""

import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from edgekit.build.data.dataset import Dataset, Sample
from edgekit.spec.errors import InputError

__all__ = ["open_arrays"]

_FIX = "save it as np.savez(FILE, images=..., labels=...): images (n, height, width, 3) uint8 RGB, labels (n,) integers or none"


def open_arrays(path: Path) -> Dataset:
    """`.npz` with `images` (n, height, width, 3) uint8 and perhaps `labels` (n,) -> Dataset."""
    try:
        # Never pickles: data must not run code.
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(f"not a readable .npz: {error}", where=str(path), fix=_FIX, code="data-npz") from None
    images = _images(arrays, path)
    labels = _labels(arrays, len(images), path)
    samples = tuple(
        Sample(i, hashlib.sha256(repr(image.shape).encode() + np.ascontiguousarray(image).tobytes()).hexdigest(), label)
        for i, (image, label) in enumerate(zip(images, labels, strict=True))
    )
    return Dataset(str(path), samples, array=images)


def _images(arrays: Mapping[str, np.ndarray], path: Path) -> np.ndarray:
    if "images" not in arrays:
        raise InputError(f"no array `images`, found {', '.join(arrays) or 'nothing'}", where=str(path), fix=_FIX, code="data-npz")
    images = arrays["images"]
    if images.ndim != 4 or images.shape[3] != 3:
        hint = "NCHW: transpose it to (0, 2, 3, 1)" if images.ndim == 4 and images.shape[1] == 3 else _FIX
        raise InputError(
            f"`images` has shape {images.shape}, needs 3 channels last", where=str(path), fix=hint, code="data-channels"
        )
    if images.dtype != np.uint8:
        raise InputError(f"`images` is {images.dtype}, needs uint8 0..255", where=str(path), fix=_FIX, code="data-dtype")
    if 0 in images.shape:
        raise InputError(f"`images` is empty: {images.shape}", where=str(path), fix=_FIX, code="data-empty")
    return images


def _labels(arrays: Mapping[str, np.ndarray], n: int, path: Path) -> list[int | None]:
    if "labels" not in arrays:
        return [None] * n
    labels = arrays["labels"]
    if labels.shape != (n,) or labels.dtype.kind not in "iu":
        raise InputError(
            f"`labels` is {labels.dtype} of shape {labels.shape}, needs {n} integers", where=str(path), fix=_FIX, code="data-npz"
        )
    return [int(label) for label in labels]

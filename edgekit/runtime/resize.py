"""Fixed-point resize: the arithmetic of docs/bundle-format.md, bit for bit the same on every reader.

Every output pixel is a weighted sum of input pixels. Weights are computed in float64, rounded to 22 fractional bits, and
applied in integers, first along the rows, then along the columns, with the result of each pass rounded and clipped to 0..255.
Pillow's `Image.resize` does exactly this along one axis, so it serves as a fast path where it is installed. Along both axes at
once it does not: since release 13 it goes down the columns first where that is cheaper, which changes pixels.
"""

import platform
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from edgekit.spec.errors import BundleError, InputError

__all__ = ["FRACTION_BITS", "Window", "resize", "resize_with_numpy"]

FRACTION_BITS = 22
"""Weights are integers of this many fractional bits: 32, less 8 for the pixel, less 2 for the overshoot of bicubic."""

BLOCK = 8
"""Output pixels computed by one dense product: wide enough for the matrix library, narrow enough to waste little on zeros."""

LONGEST_PX = 8192
"""Beyond this side only the window is computed: a long thin image would need gigabytes for pixels that the crop throws away."""

Pixels = NDArray[np.uint8]
Window = tuple[int, int, int, int]
"""left, top, right, bottom in pixels of the resized image; right and bottom are outside."""


def _bilinear(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(x < 1.0, 1.0 - x, 0.0)


def _bicubic(x: NDArray[np.float64]) -> NDArray[np.float64]:
    # Keys' kernel with a = -0.5; the order of operations is part of the format, because it decides the last bit.
    a = -0.5
    near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    far = (((x - 5.0) * x + 8.0) * x - 4.0) * a
    return np.where(x < 1.0, near, np.where(x < 2.0, far, 0.0))


def _kernel(name: str) -> tuple[Callable[[NDArray[np.float64]], NDArray[np.float64]], float]:
    if name == "bilinear":
        return _bilinear, 1.0
    if name == "bicubic":
        return _bicubic, 2.0
    raise BundleError(
        f"unknown filter {name!r}", where="preprocess.filter", fix="use bilinear or bicubic", code="bundle-manifest"
    )


def _weights(size: int, out_size: int, filter_name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """-> first input pixel (out_size,) and integer weights (out_size, taps) of every output pixel."""
    kernel, reach = _kernel(filter_name)
    scale = size / out_size
    stretch = max(scale, 1.0)
    support = reach * stretch
    center = (np.arange(out_size) + 0.5) * scale
    # Truncation towards zero, then the clip: what a C cast does.
    first = np.maximum(np.trunc(center - support + 0.5), 0).astype(np.int64)
    last = np.minimum(np.trunc(center + support + 0.5), size).astype(np.int64)
    taps = np.arange(int(np.max(last - first)))
    distance = (taps[None, :] + first[:, None] - center[:, None] + 0.5) * (1.0 / stretch)
    raw = np.where(taps[None, :] < (last - first)[:, None], kernel(np.abs(distance)), 0.0)
    # Summed one by one from the left: a pairwise sum has other last bits.
    total = np.zeros(out_size)
    for column in raw.T:
        total = total + column
    share = raw / np.where(total == 0.0, 1.0, total)[:, None] * float(1 << FRACTION_BITS)
    return first, np.trunc(share + np.where(share < 0, -0.5, 0.5)).astype(np.int64)


def _apply(lines: Pixels, out_size: int, span: tuple[int, int], filter_name: str) -> Pixels:
    """(n, m) uint8 -> (stop - start, m) uint8: weighted sums of lines for the output positions in `span`."""
    first, weights = _weights(lines.shape[0], out_size, filter_name)
    start, stop = span
    out = np.empty((stop - start, lines.shape[1]), np.uint8)
    half = float(1 << (FRACTION_BITS - 1))
    for low in range(start, stop, BLOCK):
        high = min(low + BLOCK, stop)
        begin = int(first[low])
        end = min(int(first[high - 1]) + weights.shape[1], lines.shape[0])
        # float64 holds these integer sums exactly (they stay below 2^53), and its product is the fast one.
        dense = np.zeros((high - low, end - begin))
        for row in range(low, high):
            offset = int(first[row]) - begin
            taps = weights[row, : end - begin - offset]
            dense[row - low, offset : offset + len(taps)] = taps
        total = dense @ lines[begin:end].astype(np.float64)
        total += half
        fixed = total.astype(np.int32) >> FRACTION_BITS
        out[low - start : high - start] = np.clip(fixed, 0, 255, out=fixed)
    return out


def resize_with_numpy(image: Pixels, size: tuple[int, int], *, filter_name: str, window: Window | None = None) -> Pixels:
    """(h, w, 3) uint8 -> (size[1], size[0], 3) uint8, or only the `window` of it."""
    height, width, channels = image.shape
    left, top, right, bottom = window or (0, 0, *size)
    if size[0] == width:
        image = image[:, left:right]
    else:
        lines = np.ascontiguousarray(image.transpose(1, 0, 2)).reshape(width, height * channels)
        columns = _apply(lines, size[0], (left, right), filter_name)
        image = columns.reshape(right - left, height, channels).transpose(1, 0, 2)
    if size[1] == height:
        return np.ascontiguousarray(image[top:bottom])
    lines = np.ascontiguousarray(image).reshape(height, -1)
    return _apply(lines, size[1], (top, bottom), filter_name).reshape(bottom - top, right - left, channels)


def _pillow_agrees(filter_name: str) -> bool:
    """Whether Pillow's compiled code cannot differ in the last bit of a weight.

    Compilers for other machines may fuse multiply and add. In the bilinear weights every product that could be fused is exact;
    in the bicubic polynomial it is not.
    """
    if filter_name == "bilinear":
        return True
    return platform.machine().lower() in ("x86_64", "amd64")


def _resize_with_pillow(image: Pixels, size: tuple[int, int], filter_name: str) -> Pixels | None:
    try:
        from PIL import Image
    except ImportError:
        return None
    resample = Image.Resampling.BILINEAR if filter_name == "bilinear" else Image.Resampling.BICUBIC
    # One axis a call fixes the order of the passes for every release of Pillow.
    rows_done = Image.fromarray(image).resize((size[0], image.shape[0]), resample)
    return np.asarray(rows_done.resize(size, resample))


def resize(image: Pixels, size: tuple[int, int], *, filter_name: str, window: Window | None = None) -> Pixels:
    """(h, w, 3) uint8 -> (size[1], size[0], 3) uint8, or only the `window` of it.

    Args:
        image: RGB pixels.
        size: width and height of the whole result.
        filter_name: `bilinear` or `bicubic`.
        window: the part that is wanted; all of it by default.
    """
    _kernel(filter_name)
    if min(image.shape[:2]) < 1 or min(size) < 1:
        raise InputError(
            f"an image of {image.shape[1]} x {image.shape[0]} px cannot be resized to {size[0]} x {size[1]}",
            where="resize",
            fix="give an image with at least one pixel",
            code="image-size",
        )
    if size == (image.shape[1], image.shape[0]):
        left, top, right, bottom = window or (0, 0, *size)
        return image[top:bottom, left:right]
    if max(size) <= LONGEST_PX and _pillow_agrees(filter_name):
        whole = _resize_with_pillow(np.ascontiguousarray(image), size, filter_name)
        if whole is not None:
            left, top, right, bottom = window or (0, 0, *size)
            return whole[top:bottom, left:right]
    return resize_with_numpy(image, size, filter_name=filter_name, window=window)

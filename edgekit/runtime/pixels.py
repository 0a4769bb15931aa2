"""From decoded pixels to the tensor that a network takes: resize, centre crop, table.

A network with integer input needs no arithmetic on the device: the builder writes a table of 256 values per channel, and a pixel
is looked up in it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgekit.runtime.images import ImageLike, decode
from edgekit.runtime.resize import resize
from edgekit.spec.errors import BundleError
from edgekit.spec.manifest import Preprocess, Rung, TensorSpec

__all__ = ["apply_table", "crop_pixels", "make_table", "read_table", "resized", "round_half_away"]

Pixels = NDArray[np.uint8]
Table = NDArray[np.generic]
Tensor = NDArray[np.generic]


def resized(width: int, height: int, *, resize_px: int) -> tuple[int, int]:
    """Width and height after the shorter side has become `resize_px`; the other side is rounded half up."""
    short, long = min(width, height), max(width, height)
    other = (long * resize_px + short // 2) // short
    return (resize_px, other) if width <= height else (other, resize_px)


def crop_pixels(image: ImageLike, rung: Rung, *, filter_name: str) -> Pixels:
    """Image -> (resolution_px, resolution_px, 3) uint8 RGB: decoded, resized, cropped at the centre."""
    side = rung.resolution_px
    if rung.resize_px < side:
        raise BundleError(
            f"resize_px {rung.resize_px} is smaller than resolution_px {side}",
            where=f"rung {rung.name}",
            fix="rebuild the bundle",
            code="bundle-manifest",
        )
    pixels = decode(image)
    size = resized(pixels.shape[1], pixels.shape[0], resize_px=rung.resize_px)
    left, top = (size[0] - side) // 2, (size[1] - side) // 2
    return resize(pixels, size, filter_name=filter_name, window=(left, top, left + side, top + side))


def apply_table(pixels: Pixels, table: Table, *, layout: str) -> Tensor:
    """(h, w, 3) uint8 -> (1, 3, h, w) for NCHW, (1, h, w, 3) for NHWC, in the table's dtype."""
    height, width, channels = pixels.shape
    if layout == "NHWC":
        out: Tensor = np.empty((1, height, width, channels), table.dtype)
        planes: Sequence[Tensor] = [out[0, :, :, c] for c in range(channels)]
    elif layout == "NCHW":
        out = np.empty((1, channels, height, width), table.dtype)
        planes = [out[0, c] for c in range(channels)]
    else:
        raise BundleError(
            f"layout {layout!r} is not an image's", where="entry.inputs[0].layout", fix="use NCHW or NHWC", code="bundle-manifest"
        )
    for channel, plane in enumerate(planes):
        plane[...] = _look_up(pixels[:, :, channel], table[channel])
    return out


def _look_up(plane: Pixels, row: Table) -> Tensor:
    """(h, w) uint8 -> (h, w) of the row's dtype."""
    if row.dtype.itemsize > 1:
        return row[plane]
    # Five times as fast as indexing, which widens every pixel to a machine word first.
    return np.frombuffer(plane.tobytes().translate(row.tobytes()), row.dtype).reshape(plane.shape)


def read_table(raw: bytes, spec: TensorSpec, *, where: str) -> Table:
    """Bytes of a bundle file -> (3, 256) table in the dtype of the input.

    Raises:
        BundleError: the file has another length.
    """
    dtype = np.dtype(spec.dtype).newbyteorder("<")
    if len(raw) != 3 * 256 * dtype.itemsize:
        raise BundleError(
            f"a pixel table of {spec.dtype} has {3 * 256 * dtype.itemsize} bytes, this one {len(raw)}",
            where=where,
            fix="rebuild the bundle",
            code="bundle-table",
        )
    return np.frombuffer(raw, dtype).reshape(3, 256).astype(np.dtype(spec.dtype))


def round_half_away(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Nearest integers; a value in the middle goes away from zero. Exact: adding 0.5 first would round 0.49999999999999994 up."""
    size = np.abs(values)
    whole = np.floor(size)
    rounded: NDArray[np.float64] = np.copysign(whole + (size - whole >= 0.5), values)
    return rounded


def make_table(preprocess: Preprocess, tensor_spec: TensorSpec) -> Table:
    """-> (3, 256) in the input's dtype: what each pixel value becomes in each channel.

    Raises:
        BundleError: an integer input has no scale or zero point.
    """
    mean = np.asarray(preprocess.mean, np.float64)[:, None]
    std = np.asarray(preprocess.std, np.float64)[:, None]
    real = (np.arange(256, dtype=np.float64)[None, :] - mean) / std
    dtype = np.dtype(tensor_spec.dtype)
    if dtype.kind == "f":
        return real.astype(dtype)
    if tensor_spec.scale is None or tensor_spec.zero_point is None:
        raise BundleError(
            f"the {tensor_spec.dtype} input {tensor_spec.name!r} has no scale and zero point",
            where="entry.inputs[0]",
            fix="rebuild the bundle",
            code="bundle-manifest",
        )
    steps = round_half_away(real / np.float64(tensor_spec.scale)) + tensor_spec.zero_point
    limits = np.iinfo(dtype)
    return np.clip(steps, limits.min, limits.max).astype(dtype)

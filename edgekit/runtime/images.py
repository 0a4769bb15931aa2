"""From what a user has, a file, a PIL image or an array, to (height, width, 3) uint8 RGB pixels.

Pillow is imported only where a file or a PIL image is given.
"""

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgekit.spec.errors import InputError, SetupError

__all__ = ["ImageLike", "decode"]

Pixels = NDArray[np.uint8]
ImageLike = Any
"""A path (`str` or `os.PathLike`), a `PIL.Image.Image`, or a uint8 array (h, w), (h, w, 1), (h, w, 3) or (h, w, 4)."""


def decode(image: ImageLike) -> Pixels:
    """Path, PIL image or array -> (height, width, 3) uint8 RGB; upright, alpha dropped.

    Raises:
        InputError: the image is missing, animated, corrupt, empty or of a kind that is not read.
    """
    if isinstance(image, np.ndarray):
        return _from_array(image)
    if isinstance(image, str | os.PathLike):
        return _from_file(Path(image))
    # A PIL image can only exist where its module has been imported.
    pil = sys.modules.get("PIL.Image")
    if pil is not None and isinstance(image, pil.Image):
        return _from_pil(image, where="the PIL image")
    raise InputError(
        f"cannot read an image from {type(image).__name__}",
        where="image",
        fix="give a path, a PIL image or a uint8 array (height, width, 3)",
        code="image-type",
    )


def _from_array(image: NDArray[Any]) -> Pixels:
    if image.dtype != np.uint8:
        raise InputError(
            f"the image array has dtype {image.dtype}",
            where="image",
            fix="give uint8 values 0..255: (values * 255).round().astype(uint8) for values 0..1",
            code="image-dtype",
        )
    if image.ndim == 2:
        image = image[:, :, None]
    if image.ndim != 3 or image.shape[2] not in (1, 3, 4) or 0 in image.shape:
        raise InputError(
            f"the image array has shape {image.shape}",
            where="image",
            fix="give (height, width), (height, width, 3) or (height, width, 4); one image, channels last",
            code="image-shape",
        )
    if image.shape[2] == 1:
        return np.repeat(image, 3, axis=2)
    return image[:, :, :3]


def _from_file(path: Path) -> Pixels:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise SetupError(
            f"reading {path.name} needs Pillow", where=str(path), fix="pip install pillow", code="pillow-missing"
        ) from error
    try:
        with warnings.catch_warnings():
            # Pillow only warns of a decompression bomb up to twice its limit; a file that large is refused here.
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as opened:
                return _from_pil(opened, where=str(path))
    except FileNotFoundError as error:
        raise InputError(f"no such image {path.name!r}", where=str(path), fix="check the path", code="image-missing") from error
    except UnidentifiedImageError as error:
        raise InputError(
            f"{path.name!r} is not an image that Pillow knows", where=str(path), fix="give a JPEG or PNG", code="image-unknown"
        ) from error
    except InputError:
        raise
    except Exception as error:
        # Pillow's parsers raise whatever they trip over: OSError, SyntaxError, ValueError, struct.error, ...
        raise InputError(
            f"{path.name!r} cannot be read: {error}", where=str(path), fix="replace the file", code="image-corrupt"
        ) from error


def _from_pil(image: Any, *, where: str) -> Pixels:
    from PIL import ImageOps

    if getattr(image, "n_frames", 1) > 1:
        raise InputError(
            f"the image is animated ({image.n_frames} frames)", where=where, fix="give a still image", code="image-animated"
        )
    if 0 in image.size:
        raise InputError(f"the image is empty: {image.size}", where=where, fix="give an image with pixels", code="image-size")
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I;16"):
        # `convert` would clip 16-bit values at 255 instead of scaling them.
        grey = (np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, axis=2)
    if image.mode in ("I", "F"):
        raise InputError(
            f"pixels of mode {image.mode!r} have no fixed range", where=where, fix="save it as 8-bit RGB", code="image-mode"
        )
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))

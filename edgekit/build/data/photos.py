"""Sample pictures without a data set: crops of photos that installed packages ship.

The packages are located, never imported: importing scikit-image and matplotlib takes seconds, reading a file does not.
"""

import hashlib
import importlib.util
import io
from pathlib import Path
from typing import Literal

import numpy as np

from edgekit.build.data.dataset import Crop, Dataset, Sample
from edgekit.spec.errors import SetupError

__all__ = ["Part", "photo_path", "sample_photos"]

Part = Literal["calibration", "judging"]

# Import name -> (distribution, folder of its photos).
_PACKAGES = {
    "skimage": ("scikit-image", "data"),
    "sklearn": ("scikit-learn", "datasets/images"),
    "matplotlib": ("matplotlib", "mpl-data/sample_data"),
}

# No photo is in both parts: agreement with the float network is only worth something on photos that calibration never saw.
_PHOTOS: dict[str, tuple[tuple[str, str], ...]] = {
    "calibration": (
        ("skimage", "astronaut.png"),
        ("skimage", "camera.png"),
        ("skimage", "hubble_deep_field.jpg"),
        ("skimage", "ihc.png"),
        ("skimage", "motorcycle_left.png"),
        ("skimage", "motorcycle_right.png"),
        ("skimage", "retina.jpg"),
        ("skimage", "rocket.jpg"),
        ("sklearn", "china.jpg"),
    ),
    "judging": (
        ("skimage", "chelsea.png"),
        ("skimage", "coffee.png"),
        ("sklearn", "flower.jpg"),
        ("matplotlib", "grace_hopper.jpg"),
    ),
}

_LEAST_PHOTOS = 3
_LEAST_AREA = 0.2


def sample_photos(part: Part, n: int, *, seed: int = 0) -> Dataset:
    """`n` square crops, each of a fifth of a photo or more, half of them mirrored; the same for the same `seed`.

    Args:
        part: which photos to cut: those to calibrate on, or those to judge agreement with the float network on.
        n: how many crops, spread evenly over the photos.
        seed: of the crops.

    Raises:
        SetupError: a package that ships the photos is not installed.
    """
    photos = [path for package, file in _PHOTOS[part] if (path := photo_path(package, file)) is not None]
    if len(photos) < _LEAST_PHOTOS:
        raise _missing(part, len(photos))
    rng = np.random.default_rng((seed, part == "judging"))
    samples: list[Sample] = []
    for i, path in enumerate(photos):
        data = path.read_bytes()
        sha256 = hashlib.sha256(data).hexdigest()
        height, width = _size(data)
        count = n // len(photos) + (i < n % len(photos))
        samples += [Sample(path, sha256, crop=_crop(height, width, rng)) for _ in range(count)]
    return Dataset("sample photos", tuple(samples))


def photo_path(package: str, file: str) -> Path | None:
    """File of a photo inside an installed package; None where the package or the photo is not there."""
    _, folder = _PACKAGES[package]
    spec = importlib.util.find_spec(package)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(location, folder, file)
        if path.is_file():
            return path
    return None


def _size(data: bytes) -> tuple[int, int]:
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        return image.height, image.width


def _crop(height: int, width: int, rng: np.random.Generator) -> Crop:
    shorter = min(height, width)
    side = max(1, min(shorter, round(shorter * float(np.sqrt(rng.uniform(_LEAST_AREA, 1.0))))))
    top, left = int(rng.integers(height - side + 1)), int(rng.integers(width - side + 1))
    return Crop(left, top, side, bool(rng.integers(2)))


def _missing(part: str, found: int) -> SetupError:
    absent = [dist for name, (dist, _) in _PACKAGES.items() if importlib.util.find_spec(name) is None]
    return SetupError(
        f"only {found} of {len(_PHOTOS[part])} sample photos for {part} are installed, {_LEAST_PHOTOS} are needed",
        where=f"packages that ship photos: {', '.join(dist for dist, _ in _PACKAGES.values())}",
        fix=f"pip install {' '.join(absent or [dist for dist, _ in _PACKAGES.values()])}, or give your own photos: --data DIR",
        code="sample-photos",
    )

"""Open the user's data: a folder of class folders, a folder with `labels.csv`, a flat folder of photos, or an `.npz`."""

import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path

from edgekit.build.data.arrays import open_arrays
from edgekit.build.data.dataset import Dataset, Sample, Skipped, check_photo, draw
from edgekit.build.data.labels import read_labels
from edgekit.spec.errors import InputError

__all__ = ["SUFFIXES", "listed_classes", "open_data"]

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".ppm", ".tif", ".tiff"})
"""Files that count as photos, in lower case."""

_FIX = "give a folder of photos, of class folders, one with labels.csv, or an .npz"


@dataclasses.dataclass(frozen=True, slots=True)
class _Listing:
    """What a folder holds, before any photo is read."""

    files: tuple[Path, ...]
    labels: tuple[int | None, ...]
    classes: tuple[str, ...] = ()


def open_data(path: Path, *, limit: int | None = None, seed: int = 0) -> Dataset:
    """Find the pictures of a folder or an `.npz`, and leave out those that cannot be decoded.

    A folder with `labels.csv` takes files and class indices from there; a folder whose photos lie in subfolders takes each
    subfolder as a class, in alphabetical order; a folder of photos is not labelled. Every photo in the result has been
    decoded once.

    Args:
        path: folder, or `.npz` with `images` (n, height, width, 3) uint8 and perhaps `labels` (n,).
        limit: at most so many pictures, spread evenly over the classes; no more than needed are read.
        seed: of the choice where there is a limit.

    Raises:
        InputError: nothing there, not readable, no usable picture, or an array of another shape.
    """
    path = Path(path)
    if path.is_file() and path.suffix.lower() == ".npz":
        data = open_arrays(path)
        return data if limit is None else data.take(limit, seed)
    if not path.exists():
        raise InputError("data not found", where=str(path), fix=_FIX, code="data")
    if not path.is_dir():
        raise InputError(f"data of an unknown kind {path.suffix!r}", where=str(path), fix=_FIX, code="data")
    listing = _listed(path)
    if not listing.files:
        raise InputError("no photo in the data folder", where=str(path), fix=_FIX, code="data-empty")
    return _select(path, listing, limit, seed)


def listed_classes(path: Path) -> tuple[str, ...]:
    """Names of a folder's classes, before a photo is read."""
    return _listed(path).classes


def _listed(path: Path) -> _Listing:
    try:
        return _list(path)
    except OSError as error:
        raise InputError(
            f"data cannot be read: {error}", where=str(path), fix="check the folder's permissions", code="data"
        ) from None


def _list(root: Path) -> _Listing:
    table = root / "labels.csv"
    if table.is_file():
        files, labels, classes = read_labels(table)
        return _Listing(files, labels, classes)
    flat = _photos(root)
    folders = sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith((".", "__")))
    by_class = {folder.name: _photos(folder) for folder in folders}
    if not any(by_class.values()):
        _refuse_splits(root, folders if not flat else [])
        return _Listing(flat, (None,) * len(flat))
    if flat:
        raise InputError(
            f"photos both in class folders and beside them ({flat[0].name})",
            where=str(root),
            fix="move those beside into a class folder, or write a labels.csv",
            code="data-mixed",
        )
    classes = tuple(name for name, photos in by_class.items() if photos)
    pairs = [(file, label) for label, name in enumerate(classes) for file in by_class[name]]
    return _Listing(tuple(file for file, _ in pairs), tuple(label for _, label in pairs), classes)


def _photos(folder: Path) -> tuple[Path, ...]:
    return tuple(
        sorted(p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES and not p.name.startswith(".") and p.is_file())
    )


def _refuse_splits(root: Path, folders: Sequence[Path]) -> None:
    """`data/{train,validation}/<class>/*.jpg`: taking train and validation for classes would be wrong without a word."""
    splits = [f for f in folders if any(_photos(sub) for sub in f.iterdir() if sub.is_dir())]
    if splits:
        raise InputError(
            f"the photos lie two folders deep (in {', '.join(f.name for f in splits[:3])})",
            where=str(root),
            fix=f"give one of them: --data {splits[0]}",
            code="data-deep",
        )


def _select(root: Path, listing: _Listing, limit: int | None, seed: int) -> Dataset:
    """Check photos in the order of the draw until there are `limit` good ones; the result is in the listing's order."""
    every = range(len(listing.files))
    good: dict[int, Sample] = {}
    skipped: list[Skipped] = []
    for i in every if limit is None else draw(listing.labels, seed):
        if limit is not None and len(good) >= limit:
            break
        checked = _check(listing.files[i], listing.labels[i])
        if isinstance(checked, Sample):
            good[i] = checked
        else:
            skipped.append(checked)
    if not good:
        raise InputError(
            f"none of {len(skipped)} photos can be used; the first: {skipped[0].why}" if skipped else "no picture was asked for",
            where=str(skipped[0].path if skipped else root),
            fix=_FIX,
            code="data-corrupt",
        )
    return Dataset(str(root), tuple(good[i] for i in sorted(good)), listing.classes, tuple(skipped))


def _check(file: Path, label: int | None) -> Sample | Skipped:
    try:
        data = file.read_bytes()
        check_photo(data, file)
    except OSError as error:
        return Skipped(file, error.strerror or str(error))
    except InputError as error:
        return Skipped(file, error.what)
    return Sample(file, hashlib.sha256(data).hexdigest(), label)

"""Train and validation: the folders of that name, or parts cut from one set with a fixed seed."""

import dataclasses
from pathlib import Path

from edgekit.build.data.dataset import Dataset
from edgekit.build.data.folders import listed_classes, open_data
from edgekit.spec.errors import InputError

__all__ = ["Parts", "class_names", "held_out", "open_splits", "split_folders"]

TRAIN = ("train", "training")
VALIDATION = ("validation", "val", "valid", "test")
HELD_OUT = 0.2
"""Share of a set that is kept away from training: once to decide on, once to report on."""


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """Three disjoint sets.

    Attributes:
        fit: to train and calibrate on.
        tune: to decide on: when to stop, what to repair, what to promise.
        report: to report on, and nothing else.
    """

    fit: Dataset
    tune: Dataset
    report: Dataset


def split_folders(path: Path) -> tuple[Path, Path] | None:
    """(training folder, validation folder) if `path` is a folder that holds both, else None."""
    if not path.is_dir():
        return None
    found = [next((path / name for name in names if (path / name).is_dir()), None) for names in (TRAIN, VALIDATION)]
    return (found[0], found[1]) if found[0] is not None and found[1] is not None else None


def class_names(path: Path) -> tuple[str, ...]:
    """Names of the classes of the user's data, before a photo is read; empty where the data does not say.

    Raises:
        InputError: it cannot be listed.
    """
    both = split_folders(path)
    folder = path if both is None else both[0]
    return listed_classes(folder) if folder.is_dir() else ()


def held_out(path: Path) -> Path:
    """The validation folder where there is one, else `path` itself."""
    both = split_folders(path)
    return path if both is None else both[1]


def open_splits(path: Path, *, seed: int, trains: bool) -> Parts:
    """Open the user's data as three sets, the same for the same seed.

    With `train` and `validation` folders, a network that is trained here fits on four fifths of `train`, decides on the last
    fifth and is reported on `validation`. Where nothing is trained here, `train` may be what the user trained on, and says too
    little of new photos: then `validation` is halved to decide and to report. One set alone is cut in the same proportions.

    Args:
        path: what `open_data` takes, or a folder with `train` and `validation` of that kind.
        seed: of the choice.
        trains: whether the network is trained on these photos.

    Raises:
        InputError: no usable photo, or a class in `validation` that `train` does not have.
    """
    both = split_folders(path)
    if both is None:
        whole = open_data(path)
        report, rest = whole.split(round(len(whole) * (HELD_OUT if trains else 0.4)), seed)
        tune, fit = rest.split(round(len(rest) * (HELD_OUT if trains else 0.67)), seed)
        return _checked(Parts(fit, tune, report), path)
    train, validation = open_data(both[0]), open_data(both[1])
    validation = _with_classes(validation, train.classes, where=both[1])
    if trains:
        tune, fit = train.split(round(len(train) * HELD_OUT), seed)
        return _checked(Parts(fit, tune, validation), path)
    tune, report = validation.split(len(validation) // 2, seed)
    return _checked(Parts(train, tune, report), path)


def _checked(parts: Parts, path: Path) -> Parts:
    if not (len(parts.fit) and len(parts.tune) and len(parts.report)):
        raise InputError(
            f"{len(parts.fit) + len(parts.tune) + len(parts.report)} photos are too few to fit, decide and report on",
            where=str(path),
            fix="give more photos; some hundreds for a figure that means something",
            code="data-few",
        )
    return parts


def _with_classes(data: Dataset, classes: tuple[str, ...], *, where: Path) -> Dataset:
    """The same pictures with the class indices of another set of class folders."""
    if data.classes == classes or not (data.classes or classes):
        return data
    strange = [name for name in data.classes if name not in classes]
    if strange or not data.classes:
        raise InputError(
            f"classes that the training photos do not have: {', '.join(strange[:5]) or 'none is named'}",
            where=str(where),
            fix="use the same class folders in both",
            code="data-classes",
        )
    return data.with_classes(classes)

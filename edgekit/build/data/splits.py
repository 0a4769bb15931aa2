"""Train and validation: the folders of that name, or parts cut from one set with a fixed seed."""

import dataclasses
from pathlib import Path
from typing import Protocol, Self, TypeVar

from edgekit.build.data.dataset import Dataset
from edgekit.build.data.folders import listed_classes, open_data
from edgekit.spec.errors import InputError

__all__ = ["TRAIN", "VALIDATION", "Parts", "class_names", "divided", "held_out", "open_splits", "split_folders"]

TRAIN = ("train", "training")
VALIDATION = ("validation", "val", "valid", "test")
HELD_OUT = 0.2
"""Share of a set that is kept away from training: once to decide on, once to report on."""


class Divisible(Protocol):
    """Photos or texts in a fixed order."""

    def __len__(self) -> int:
        """How many."""
        ...

    def split(self, n: int, seed: int = 0) -> tuple[Self, Self]:
        """(n of them, all others), both with the classes in the proportions of the whole."""
        ...


D = TypeVar("D", bound=Divisible)


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
        return Parts(*divided(open_data(path), None, seed=seed, trains=trains, what="photos", path=path))
    train, validation = open_data(both[0]), open_data(both[1])
    validation = _with_classes(validation, train.classes, where=both[1])
    return Parts(*divided(train, validation, seed=seed, trains=trains, what="photos", path=path))


def divided(whole: D, validation: D | None, *, seed: int, trains: bool, what: str, path: Path) -> tuple[D, D, D]:
    """(to fit, to tune, to report) of photos or texts; see `open_splits`.

    Args:
        whole: all of the data, or what is to train on.
        validation: kept apart by the user; None if nothing was.
        seed: of the choice.
        trains: whether the network is trained on this data.
        what: they are, for people.
        path: of the data, for people.

    Raises:
        InputError: `data-few`; one of the parts would be empty.
    """
    if validation is None:
        report, rest = whole.split(round(len(whole) * (HELD_OUT if trains else 0.4)), seed)
        tune, fit = rest.split(round(len(rest) * (HELD_OUT if trains else 0.67)), seed)
    elif trains:
        report, (tune, fit) = validation, whole.split(round(len(whole) * HELD_OUT), seed)
    else:
        fit, (tune, report) = whole, validation.split(len(validation) // 2, seed)
    if not (len(fit) and len(tune) and len(report)):
        raise InputError(
            f"{len(fit) + len(tune) + len(report)} {what} are too few to fit, decide and report on",
            where=str(path),
            fix=f"give more {what}; some hundreds for a figure that means something",
            code="data-few",
        )
    return fit, tune, report


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

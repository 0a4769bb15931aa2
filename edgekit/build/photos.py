"""Which photos a build calibrates and judges on, as a value that can be part of a stage's key."""

from dataclasses import dataclass

from edgekit.build.artifact import Pinned
from edgekit.build.data import Dataset, open_parts
from edgekit.build.splits import Parts, Splits

__all__ = ["JUDGING_LIMIT", "Photos", "choose", "of_splits"]

JUDGING_LIMIT = 64

REPORTING_LIMIT = 2000
"""Photos of the reporting part that are judged: more of them would take minutes and tell little more."""


@dataclass(frozen=True, slots=True)
class Photos:
    """Two disjoint sets: one sets the ranges, the other judges.

    Attributes:
        folder: the user's data, pinned by the digest of both sets; None for sample photos of installed packages.
        digest: of both sets.
        calibration: at most so many photos.
        judging: at most so many photos.
        seed: of the choice.
        splits: parts of the data that a build trains or decides on: then ranges are set on photos to fit, and those to report on
            judge.
    """

    folder: Pinned | None
    digest: str
    calibration: int
    judging: int
    seed: int
    splits: Splits | None = None

    def open(self) -> tuple[Dataset, Dataset]:
        """(calibration, judging)."""
        if self.splits is not None:
            parts = self.splits.open()
            return parts.fit.take(self.calibration, self.seed), parts.report.take(self.judging, self.seed)
        path = None if self.folder is None else self.folder.path
        return open_parts(path, calibration=self.calibration, judging=self.judging, seed=self.seed)


def choose(folder: "Pinned | None", *, calibration: int, judging: int = JUDGING_LIMIT, seed: int = 0) -> tuple[Photos, Dataset]:
    """Open the photos once, to learn what they are.

    Args:
        folder: the user's data; its digest may be empty.
        calibration: photos to calibrate on.
        judging: photos to judge on.
        seed: of the choice.

    Raises:
        InputError: no usable photo.
        SetupError: no data was given, and the packages that ship photos are not installed.
    """
    path = None if folder is None else folder.path
    first, second = open_parts(path, calibration=calibration, judging=judging, seed=seed)
    digest = f"{first.digest}-{second.digest}"
    pinned = None if folder is None else Pinned(folder.path, digest)
    return Photos(pinned, digest, calibration, judging, seed), first


def of_splits(splits: Splits, parts: Parts, *, calibration: int) -> tuple[Photos, Dataset]:
    """Calibrate on photos to fit, judge on those to report on."""
    ours = parts.fit.take(calibration, splits.seed)
    return Photos(splits.folder, splits.folder.digest, calibration, REPORTING_LIMIT, splits.seed, splits), ours

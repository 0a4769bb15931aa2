"""Which photos a build calibrates and judges on, as a value that can be part of a stage's key."""

from dataclasses import dataclass

from edgekit.build.artifact import Pinned
from edgekit.build.data import Dataset, open_parts

__all__ = ["JUDGING_LIMIT", "Photos", "choose"]

JUDGING_LIMIT = 64


@dataclass(frozen=True, slots=True)
class Photos:
    """Two disjoint sets: one sets the ranges, the other judges.

    Attributes:
        folder: the user's data, pinned by the digest of both sets; None for sample photos of installed packages.
        digest: of both sets.
        calibration: at most so many photos.
        judging: at most so many photos.
        seed: of the choice.
    """

    folder: Pinned | None
    digest: str
    calibration: int
    judging: int
    seed: int

    def open(self) -> tuple[Dataset, Dataset]:
        """(calibration, judging)."""
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

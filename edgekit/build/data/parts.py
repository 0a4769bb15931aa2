"""One set to calibrate on and another to judge on."""

from pathlib import Path

from edgekit.build.data.dataset import Dataset
from edgekit.build.data.folders import open_data
from edgekit.build.data.photos import sample_photos

__all__ = ["open_parts"]


def open_parts(path: Path | None, *, calibration: int, judging: int, seed: int = 0) -> tuple[Dataset, Dataset]:
    """(calibration, judging): disjoint sets of at most so many pictures.

    Of the user's data, the larger part goes to calibration where there is not enough for both; a single picture serves both.
    Without data, sample photos: no photo is in both sets.

    Args:
        path: what `open_data` takes, or None for sample photos.
        calibration: pictures to calibrate on.
        judging: pictures to judge agreement with the float network on.
        seed: of the choice.
    """
    if path is None:
        return sample_photos("calibration", calibration, seed=seed), sample_photos("judging", judging, seed=seed)
    data = open_data(path, limit=calibration + judging, seed=seed)
    if len(data) == 1:
        return data, data
    share = calibration / (calibration + judging)
    n = min(calibration, max(1, min(len(data) - 1, round(len(data) * share))))
    ours, rest = data.split(n, seed)
    return ours, rest.take(judging, seed)

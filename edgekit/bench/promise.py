"""What may be promised of a payload: how far its metric can lie below the float network's on photos not seen yet.

A promise is one-sided: the 95 % upper bound of the drop, from the same photos before and after.
"""

from dataclasses import dataclass

import numpy as np

from edgekit.bench.stats import ONE_SIDED, drop_interval, resampled_drop, share_interval

__all__ = ["Promise", "least_photos", "promise"]

_SHARE = 0.95
_FEWEST, _MOST = 8, 1 << 20


@dataclass(frozen=True, slots=True)
class Promise:
    """Of one payload against the float network.

    Attributes:
        n: photos.
        metric: share (0..1) that the payload gets right; without labels, answers as the float network does.
        metric_float: the same of the float network; 1 without labels.
        drop_pp: difference in percentage points.
        interval_pp: two-sided 95 % interval of the drop.
        bound_pp: one-sided 95 % upper bound of the drop: what may be promised.
        metric_low: one-sided 95 % lower bound (Wilson) of the payload's own metric on photos of this kind.
    """

    n: int
    metric: float
    metric_float: float
    drop_pp: float
    interval_pp: tuple[float, float]
    bound_pp: float
    metric_low: float

    def keeps(self, max_drop_pp: float) -> bool:
        """Whether a drop of more than `max_drop_pp` is ruled out."""
        return self.bound_pp <= max_drop_pp


def promise(before: np.ndarray, after: np.ndarray, *, seed: int = 0) -> Promise:
    """(n,) and (n,) bool, right or wrong on the same photos -> what may be promised.

    The bound is the larger of two: the 95th percentile of the drop under paired resampling of the photos, and Newcombe's limit
    for paired proportions (see `stats.drop_interval`), which stays honest where hardly a photo tells the two apart: resampling
    photos that all agree gives an interval of no width.
    """
    drop, interval = drop_interval(before, after)
    _, (_, newcombe) = drop_interval(before, after, z=ONE_SIDED)
    resampled = float(np.quantile(resampled_drop(before, after, seed=seed), _SHARE))
    return Promise(
        n=len(before),
        metric=float(np.mean(after)),
        metric_float=float(np.mean(before)),
        drop_pp=100 * drop,
        interval_pp=(100 * interval[0], 100 * interval[1]),
        bound_pp=100 * max(resampled, newcombe),
        metric_low=share_interval(after, z=ONE_SIDED)[0],
    )


def least_photos(max_drop_pp: float, *, metric: float = 0.9) -> int:
    """Fewest photos on which a network that never differs from the float one could be promised to drop so little.

    Args:
        max_drop_pp: in percentage points.
        metric: share that the float network gets right.
    """
    low, high = _FEWEST, _MOST
    while low < high:
        middle = (low + high) // 2
        right = np.arange(middle) < round(metric * middle)
        if 100 * drop_interval(right, right, z=ONE_SIDED)[1][1] <= max_drop_pp:
            high = middle
        else:
            low = middle + 1
    return low

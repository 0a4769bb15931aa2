"""Intervals for what is measured: a ratio of times, and a drop of accuracy on the same pictures."""

import math

import numpy as np

__all__ = ["ONE_SIDED", "drop_interval", "least_share", "ratio_of_medians", "resampled_drop", "share_interval"]

_Z95 = 1.959963984540054
ONE_SIDED = 1.6448536269514722
"""Standard deviations of a normal distribution below which 95 % of it lie."""
_RESAMPLES = 2000


def ratio_of_medians(upper: np.ndarray, lower: np.ndarray, *, seed: int = 0) -> tuple[float, tuple[float, float]]:
    """(n,) and (n,) times of the same n rounds -> median(upper) / median(lower) and its 95 % bootstrap interval.

    Rounds are drawn together: what slowed one round slowed both, and should not widen the interval.
    """
    rounds = np.random.default_rng(seed).integers(len(upper), size=(_RESAMPLES, len(upper)))
    ratios = np.median(upper[rounds], axis=1) / np.median(lower[rounds], axis=1)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return float(np.median(upper) / np.median(lower)), (float(low), float(high))


def resampled_drop(before: np.ndarray, after: np.ndarray, *, seed: int = 0) -> np.ndarray:
    """(n,) and (n,) bool of the same pictures -> (2000,) drops of resampled sets: a picture is drawn with both of its answers."""
    n = len(before)
    lost, won = float(np.mean(before & ~after)), float(np.mean(~before & after))
    counts = np.random.default_rng(seed).multinomial(n, [lost, won, max(0.0, 1 - lost - won)], size=_RESAMPLES)
    return (counts[:, 0] - counts[:, 1]) / n


def drop_interval(before: np.ndarray, after: np.ndarray, *, z: float = _Z95) -> tuple[float, tuple[float, float]]:
    """(n,) and (n,) bool, right or wrong on the same pictures -> mean(before) - mean(after) and its interval: 95 %, or by `z`.

    Newcombe's square-and-add interval for paired proportions (method 10, Statistics in Medicine 17, 1998): Wilson limits of
    both, joined through their correlation. Unlike a bootstrap it stays honest where no picture tells the two apart.
    """
    n = len(before)
    both, first = int(np.sum(before & after)), int(np.sum(before & ~after))
    second = int(np.sum(~before & after))
    neither = n - both - first - second
    p1, p2 = (both + first) / n, (both + second) / n
    (low1, high1), (low2, high2) = _wilson(p1, n, z), _wilson(p2, n, z)
    phi = _correlation(both, first, second, neither)
    down = _joined(p1 - low1, high2 - p2, phi)
    up = _joined(high1 - p1, p2 - low2, phi)
    drop = p1 - p2
    return drop, (max(-1.0, drop - down), min(1.0, drop + up))


def share_interval(right: np.ndarray, *, z: float = _Z95) -> tuple[float, float]:
    """(n,) bool -> interval of its mean (Wilson's): 95 %, or by `z`."""
    low, high = _wilson(float(np.mean(right)), len(right), z)
    return max(0.0, low), min(1.0, high)


def least_share(share: float, n: int, *, of: int, z: float = ONE_SIDED) -> float:
    """Share right among `n` examples -> the least that `of` new ones of the same kind will show, with one-sided 95 % or by `z`.

    Both samples are small: their Wilson limits are joined as Newcombe (1998, method 10 of part II) joins those of two samples.
    """
    here, there = (share - max(0.0, _wilson(share, each, z)[0]) for each in (n, of))
    return max(0.0, share - math.hypot(here, there))


def _wilson(p: float, n: int, z: float) -> tuple[float, float]:
    centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * math.sqrt(p * (1 - p) / n + z**2 / (4 * n * n)) / (1 + z**2 / n)
    return centre - half, centre + half


def _correlation(both: int, first: int, second: int, neither: int) -> float:
    margins = (both + first) * (second + neither) * (both + second) * (first + neither)
    if margins == 0:
        return 0.0
    cross = both * neither - first * second
    if cross > 0:  # Newcombe's correction for continuity
        cross = max(0.0, cross - (both + first + second + neither) / 2)
    return cross / math.sqrt(margins)


def _joined(a: float, b: float, phi: float) -> float:
    return math.sqrt(max(0.0, a * a - 2 * phi * a * b + b * b))

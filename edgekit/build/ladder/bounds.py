"""What may be promised of a rare event that was counted on examples: nothing is assumed but that use is like the examples."""

import math
from collections.abc import Callable

from scipy.stats import beta, binom

from edgekit.spec.errors import GoalError

__all__ = ["CONFIDENCE", "harm_bound", "least_samples", "most_harmful", "power", "refuse_few", "samples_needed"]

CONFIDENCE = 0.95
POWER = 0.8
MOST_SAMPLES = 1_000_000


def harm_bound(harmful: int, n: int, confidence: float = CONFIDENCE) -> float:
    """Upper bound (0..1) of a rate of which `harmful` cases were seen among `n`.

    Clopper and Pearson, Biometrika 26 (1934), one side: it holds for every rate, unlike those by the normal distribution.
    """
    return 1.0 if harmful >= n else float(beta.ppf(confidence, harmful + 1, n - harmful))


def most_harmful(n: int, limit_pp: float, confidence: float = CONFIDENCE) -> int:
    """Largest number of cases among `n` with which at most `limit_pp` points may be promised; -1 if not even none does."""
    count = -1
    while count + 1 < n and harm_bound(count + 1, n, confidence) <= limit_pp / 100:
        count += 1
    return count


def least_samples(limit_pp: float, confidence: float = CONFIDENCE, *, harmful: int = 0) -> int:
    """Fewest examples with which `harmful` cases still allow the promise."""
    return _first(lambda n: harm_bound(harmful, n, confidence) <= limit_pp / 100, harmful + 1)


def power(n: int, limit_pp: float, true_rate: float, confidence: float = CONFIDENCE) -> float:
    """Chance (0..1) that `n` examples allow the promise if cases really come at `true_rate` (0..1)."""
    most = most_harmful(n, limit_pp, confidence)
    return 0.0 if most < 0 else float(binom.cdf(most, n, true_rate))


def samples_needed(limit_pp: float, true_rate: float, confidence: float = CONFIDENCE, *, chance: float = POWER) -> int:
    """Fewest examples with which the promise is allowed with this chance, if cases really come at `true_rate` (0..1).

    The chance saws up and down with n: it jumps where one case more is allowed, and falls until the next.

    Raises:
        ValueError: the true rate is not below the limit.
    """
    if true_rate >= limit_pp / 100:
        raise ValueError("no number of examples proves what is not so")
    harmful = 0
    while True:
        n = least_samples(limit_pp, confidence, harmful=harmful)
        if binom.cdf(harmful, n, true_rate) >= chance:
            return n
        harmful += 1


def refuse_few(n: int, limit_pp: float, *, confidence: float = CONFIDENCE, where: str) -> None:
    """Refuse a promise that `n` examples cannot carry, whatever they say.

    Raises:
        GoalError: `ladder-samples`; how many are needed.
    """
    if most_harmful(n, limit_pp, confidence) >= 0:
        return
    least = least_samples(limit_pp, confidence)
    likely = samples_needed(limit_pp, limit_pp / 400, confidence)
    raise GoalError(
        f"{n} examples cannot promise at most {limit_pp:g} points of harmful answers at {confidence:.1%}: {least} are needed "
        f"if none of them is harmful, {likely} for a chance of {POWER:.0%} where the true rate is {limit_pp / 4:g} points",
        where=where,
        fix=f"give at least {likely} examples to decide on, or raise --max-drop to {_affordable(n, confidence):g}",
        code="ladder-samples",
    )


def _affordable(n: int, confidence: float) -> float:
    """Points that so many examples can promise, rounded up to hundredths."""
    return math.ceil(1e4 * harm_bound(0, n, confidence)) / 100


def _first(holds: Callable[[int], bool], start: int) -> int:
    """Least n >= start for which a condition holds that stays true once it is."""
    low, high = start, max(2, 2 * start)
    while not holds(high):
        low, high = high, 2 * high
        if high > MOST_SAMPLES:
            return MOST_SAMPLES
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low

"""Orders of margins from strict to loose, fixed before the examples that decide are looked at."""

from collections.abc import Sequence

import numpy as np

from edgekit.build.ladder.margins import Trials, stops

__all__ = ["INTEGER_LEVELS", "designed", "levels_of", "straight"]

INTEGER_LEVELS = tuple(float(step) for step in range(256, -1, -1))
"""Every margin that int8 logits can have, from one that none has."""

LEVELS = 64


def straight(levels: Sequence[float]) -> tuple[tuple[float, ...], ...]:
    """The path of a single margin: all levels, strictest first."""
    return tuple((float(level),) for level in sorted(levels, reverse=True))


def levels_of(margins: np.ndarray, *, never: float, count: int = LEVELS, even: bool = False) -> tuple[float, ...]:
    """(n,) margins of one rung on design examples -> levels from strict to loose: `never`, then some that they pass, then 0.

    Args:
        margins: of design examples.
        never: a margin that none has.
        count: levels that let evenly growing shares of them pass.
        even: as many more at even distances: examples that trained the network seldom have margins as small as others.
    """
    levels = np.quantile(margins, np.linspace(1, 0, count), method="higher").tolist()
    if even:
        levels = sorted({*levels, *np.linspace(0, max(levels), count).tolist()}, reverse=True)
    return (never, *(float(level) for level in dict.fromkeys(levels) if 0 < level < never), 0.0)


def designed(trials: Trials, levels: Sequence[Sequence[float]], costs: Sequence[float]) -> tuple[tuple[float, ...], ...]:
    """A path for several margins: at each step the one is loosened that saves most for the harm it does on the design examples.

    Args:
        trials: design examples; they may have trained the network, but must not decide on margins later. What they say makes the
            path more or less useful, and never a promise wrong.
        levels: of each margin, strictest first.
        costs: of each rung on its own, the last included.
    """
    sums = np.cumsum(costs)
    places = [0] * len(levels)

    def vector(at: Sequence[int]) -> tuple[float, ...]:
        return tuple(float(each[i]) for each, i in zip(levels, at, strict=True))

    def judged(at: Sequence[int]) -> tuple[float, int]:
        stopped = stops(trials.margins, vector(at))
        return float(sums[stopped].mean()), int(trials.harmful(stopped).sum())

    path = [vector(places)]
    cost, harm = judged(places)
    while any(place + 1 < len(each) for place, each in zip(places, levels, strict=True)):
        options = []
        for i, each in enumerate(levels):
            if places[i] + 1 < len(each):
                moved = [*places[:i], places[i] + 1, *places[i + 1 :]]
                after, harmed = judged(moved)
                # Half a harmful answer stands for what the examples are too few to show.
                options.append(((cost - after) / (max(harmed - harm, 0) + 0.5), -i, moved, after, harmed))
        _, _, places, cost, harm = max(options, key=lambda option: option[:2])
        path.append(vector(places))
    return tuple(path)

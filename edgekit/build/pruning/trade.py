"""Fewer multiply-accumulates for the same number of parameters: early layers get narrower, and late ones some channels back."""

import math
from collections.abc import Sequence

from edgekit.build.pruning.costs import Costs
from edgekit.build.pruning.steps import Steps

__all__ = ["trade"]

_LEAST_GAIN = 0.2
"""Of the multiply-accumulates that a step saves, what must be left after its parameters were given back elsewhere."""


def trade(units: list[int], steps: Sequence[Steps], costs: Costs, *, parameters: int, macs: int) -> None:
    """Change `units`, in place, until at most `macs` are left or nothing more is to be gained; parameters stay at `parameters`.

    Each turn gives channels back where a parameter takes fewest multiply-accumulates, and takes them where the loss rises least
    for what is then really saved.
    """
    parts = costs.by_group(len(units))
    for _ in range(sum(units)):
        if costs.of(units)[1] <= macs:
            return
        back = _receiver(units, steps, parts)
        if back is None:
            return
        index = _giver(units, steps, parts, back)
        if index is None:
            return
        units[index] = steps[index].below(units[index])
        while units[back] < steps[back].units:
            more = [*units[:back], steps[back].above(units[back]), *units[back + 1 :]]
            if costs.of(more)[0] > parameters:
                break
            units[back] = more[back]


def _receiver(units: Sequence[int], steps: Sequence[Steps], parts: Sequence[Costs]) -> int | None:
    """The pruned group with fewest multiply-accumulates a parameter; of those within 5 % the one whose loss falls most."""

    def price(index: int) -> tuple[int, float]:
        saved = _change(index, steps[index].above(units[index]), units, parts)
        rise = steps[index].rise(units[index]) - steps[index].rise(steps[index].above(units[index]))
        return round(math.log(max(saved[1], 1) / max(saved[0], 1)) / 0.05), -rise / max(saved[0], 1)

    return min((i for i, n in enumerate(units) if n < steps[i].units), key=price, default=None)


def _giver(units: Sequence[int], steps: Sequence[Steps], parts: Sequence[Costs], back: int) -> int | None:
    """The group whose next step costs least loss for the multiply-accumulates that it saves beyond what `back` takes again."""
    again = _change(back, steps[back].above(units[back]), units, parts)
    each = again[1] / max(again[0], 1)
    prices: dict[int, float] = {}
    for index, n in enumerate(units):
        if index == back or steps[index].below(n) < steps[index].floor:
            continue
        saved = _change(index, steps[index].below(n), units, parts)
        gain = saved[1] - each * saved[0]
        if gain > _LEAST_GAIN * saved[1]:
            prices[index] = (steps[index].rise(steps[index].below(n)) - steps[index].rise(n)) / gain
    return min(prices, key=lambda index: prices[index], default=None)


def _change(index: int, to: int, units: Sequence[int], parts: Sequence[Costs]) -> tuple[int, int]:
    """(parameters, macs) by which the two numbers of units of a group differ."""
    other = [*units[:index], to, *units[index + 1 :]]
    a, b = parts[index].of(units), parts[index].of(other)
    return abs(a[0] - b[0]), abs(a[1] - b[1])

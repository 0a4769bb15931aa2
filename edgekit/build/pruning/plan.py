"""How many channels each group keeps: step by step from the group whose loss rises least for what it saves.

Source: Yang et al., NetAdapt (ECCV 2018), which also takes the cheapest of all groups at each step. There the loss is measured
after each step; here once for each group, along with how it goes on, so that planning takes seconds.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgekit.build.pruning.costs import Costs
from edgekit.build.pruning.steps import Prunable, Steps
from edgekit.build.pruning.trade import trade
from edgekit.spec.errors import InputError

__all__ = ["MEASURES", "Target", "plan"]

MEASURES = ("parameters", "macs")

LEAST_MACS = 0.9
"""Where parameters are to be removed, multiply-accumulates are to fall by this share of the ratio. Else a network whose size is
in its last layers would get smaller but hardly faster. At 0.75 efficientnet_lite0 without 40 % of its parameters saves 23 % of
the time in XNNPACK but only 18 % in ONNX Runtime, at 0.9 30 % and 22 %."""


@dataclass(frozen=True, slots=True)
class Target:
    """What to reach.

    Attributes:
        ratio: share of the whole network's cost to remove, 0..1.
        measure: `parameters` or `macs`.
        parameters: of the whole network.
        macs: of the whole network.
    """

    ratio: float
    measure: str
    parameters: int
    macs: int

    def removed(self, cost: tuple[int, int]) -> float:
        """Share that is gone where (parameters, macs) are left."""
        left, whole = (cost[0], self.parameters) if self.measure == "parameters" else (cost[1], self.macs)
        return 1 - left / whole

    def saved(self, cost: tuple[int, int]) -> float:
        """What a (parameters, macs) counts when groups are compared, as a share of the whole network's.

        Where parameters are wanted, multiply-accumulates count half: latency is to fall with the size.
        """
        macs = cost[1] / self.macs
        return macs if self.measure == "macs" else (cost[0] / self.parameters + macs) / 2


def plan(costs: Costs, groups: Sequence[Prunable], target: Target, *, round_to: int = 8) -> tuple[int, ...]:
    """-> units that each group keeps: channels are multiples of `round_to` wherever a group was pruned.

    The ratio is reached, and no step could be given back. A ratio of parameters also takes `LEAST_MACS` of itself from the
    multiply-accumulates, where the groups allow: then parameters may be passed by what that takes.

    Raises:
        InputError: `prune-ratio`; it cannot be reached without emptying a layer.
    """
    if not 0 < target.ratio < 1:
        raise InputError(
            f"the ratio to prune is {target.ratio}, not between 0 and 1", where="--prune", fix="--prune 0.4", code="prune-ratio"
        )
    steps = [Steps.of(group, round_to=round_to) for group in groups]
    _check_reach(costs, groups, steps, target)
    parts = costs.by_group(len(groups))
    units = [group.units for group in groups]

    def price(index: int) -> float:
        """Rise of the loss for what the next step of a group saves."""
        fewer = list(units)
        fewer[index] = steps[index].below(units[index])
        before, after = parts[index].of(units), parts[index].of(fewer)
        saved = target.saved((before[0] - after[0], before[1] - after[1]))
        return (steps[index].rise(fewer[index]) - steps[index].rise(units[index])) / max(saved, 1e-12)

    while target.removed(costs.of(units)) < target.ratio:
        index = min((i for i, n in enumerate(units) if steps[i].below(n) >= steps[i].floor), key=price)
        units[index] = steps[index].below(units[index])
    _give_back(units, steps, fits=lambda each: target.removed(costs.of(each)) >= target.ratio)
    if target.measure == "parameters":
        most = math.floor(target.macs * (1 - LEAST_MACS * target.ratio))
        left = math.floor(target.parameters * (1 - target.ratio))
        trade(units, steps, costs, parameters=left, macs=most)
        reached = max(most, costs.of(units)[1])
        _give_back(units, steps, fits=lambda each: costs.of(each)[0] <= left and costs.of(each)[1] <= reached)
    return tuple(units)


def _give_back(units: list[int], steps: Sequence[Steps], *, fits: Callable[[Sequence[int]], bool]) -> None:
    """Undo steps that were not needed, the dearest first, in place: the last step may have gone well beyond the ratio."""
    for index in sorted(range(len(units)), key=lambda i: -steps[i].rise(units[i])):
        while units[index] < steps[index].units:
            more = [*units[:index], steps[index].above(units[index]), *units[index + 1 :]]
            if not fits(more):
                break
            units[index] = more[index]


def _check_reach(costs: Costs, groups: Sequence[Prunable], steps: Sequence[Steps], target: Target) -> None:
    least = [s.floor for s in steps]
    reach = target.removed(costs.of(least))
    if reach >= target.ratio:
        return
    left = [target.removed(costs.of([0 if j == i else n for j, n in enumerate(least)])) for i in range(len(groups))]
    name = groups[left.index(max(left))].name
    largest = math.floor(100 * max(reach, 0.0)) / 100
    option = "--prune" if target.measure == "parameters" else "--prune-macs"
    raise InputError(
        f"removing {target.ratio:.0%} of the {target.measure} would empty layer {name}: "
        f"with the fewest channels everywhere {max(reach, 0.0):.1%} are gone",
        where=f"{option} {target.ratio:g}",
        fix=f"{option} {largest:g} is the largest that can be met" if largest > 0 else f"leave {option} out",
        code="prune-ratio",
    )

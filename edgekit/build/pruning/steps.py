"""How many channels a group may keep, and what it costs to keep fewer."""

import math
from dataclasses import dataclass

__all__ = ["LEAST_SHARE", "Prunable", "Steps"]

LEAST_SHARE = 0.1
"""Of a group's channels that stay at least: a layer with fewer is a bottleneck that no training mends."""

EVENNESS_NATS = 1e-3
"""Added to the rise, times the square of the share removed: below the noise of the measurement it spreads the loss."""


@dataclass(frozen=True, slots=True)
class Prunable:
    """A group to plan for.

    Attributes:
        name: of its leading layer.
        units: that it has now.
        whole: that it had in the whole network, for which `rises` were measured.
        blocks: channels of one unit.
        rises: of the loss, in nats, at each of `shares`.
        shares: of the units that were removed, 0..1 ascending.
    """

    name: str
    units: int
    whole: int
    blocks: int
    rises: tuple[float, ...]
    shares: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Steps:
    """Numbers of units that a group may keep, and how the loss rises with them.

    Attributes:
        step: from one number to the next.
        floor: the lowest.
        units: the highest: what the group has now.
        whole: what it had when the rise was measured.
        hull: (share removed, rise of the loss in nats), convex.
    """

    step: int
    floor: int
    units: int
    whole: int
    hull: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, group: Prunable, *, round_to: int) -> "Steps":
        """Channels in multiples of `round_to` and of the group's blocks."""
        step = math.lcm(round_to, group.blocks) // group.blocks
        floor = step * max(1, math.ceil(LEAST_SHARE * group.whole / step))
        return cls(step, min(floor, group.units), group.units, group.whole, _hull(group))

    def below(self, units: int) -> int:
        """The next lower number."""
        return (units - 1) // self.step * self.step

    def above(self, units: int) -> int:
        """The next higher number; at most what the group has now."""
        return min(self.units, units + self.step)

    def rise(self, units: int) -> float:
        """Of the loss where so many are left."""
        share = 1 - units / self.whole
        for (x0, y0), (x1, y1) in zip(self.hull, self.hull[1:], strict=False):
            if share <= x1:
                return y0 + (y1 - y0) * (share - x0) / (x1 - x0) + EVENNESS_NATS * share**2
        return self.hull[-1][1] + EVENNESS_NATS * share**2


def _hull(group: Prunable) -> tuple[tuple[float, float], ...]:
    """Measured points -> the convex curve below them: what pays only further on is priced by the way there.

    Beyond the last point it rises twice as steeply.
    """
    points = [(0.0, 0.0), *zip(group.shares, group.rises, strict=True)]
    (x0, y0), (x1, y1) = points[-2:]
    points.append((1.0, y1 + 2 * (1 - x1) * (y1 - y0) / (x1 - x0)))
    hull: list[tuple[float, float]] = []
    for point in points:
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], point):
            hull.pop()
        hull.append(point)
    return tuple(hull)


def _slope(a: tuple[float, float], b: tuple[float, float]) -> float:
    return (b[1] - a[1]) / (b[0] - a[0])

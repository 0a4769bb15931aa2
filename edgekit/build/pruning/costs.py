"""What a network costs as a function of how many channels its groups keep: exact, and without running it."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Costs", "Extent", "TensorCost"]


@dataclass(frozen=True, slots=True)
class Extent:
    """Length of one axis of a tensor.

    Attributes:
        fixed: positions that no group governs.
        parts: (index of a group, positions that each of its units takes).
    """

    fixed: int
    parts: tuple[tuple[int, int], ...] = ()

    def at(self, units: Sequence[int]) -> int:
        """Length where the groups keep so many units."""
        return self.fixed + sum(units[group] * each for group, each in self.parts)


@dataclass(frozen=True, slots=True)
class TensorCost:
    """One parameter tensor.

    Attributes:
        extents: of its axes that some group governs.
        values: product of its other axes.
        positions: places of the output where each value is multiplied once; 0 where nothing counts it.
    """

    extents: tuple[Extent, ...]
    values: int
    positions: int

    def parameters(self, units: Sequence[int]) -> int:
        """Number of its values."""
        return self.values * math.prod(extent.at(units) for extent in self.extents)

    @property
    def groups(self) -> frozenset[int]:
        """Indices of the groups that govern it."""
        return frozenset(group for extent in self.extents for group, _ in extent.parts)


@dataclass(frozen=True, slots=True)
class Costs:
    """All parameter tensors of a network."""

    tensors: tuple[TensorCost, ...]

    def of(self, units: Sequence[int]) -> tuple[int, int]:
        """(parameters, multiply-accumulates of one photo) where the groups keep so many units."""
        return _total(self.tensors, units)

    def by_group(self, count: int) -> tuple["Costs", ...]:
        """For each of `count` groups the tensors that it governs: all that changes with it."""
        return tuple(Costs(tuple(t for t in self.tensors if group in t.groups)) for group in range(count))


def _total(tensors: Iterable[TensorCost], units: Sequence[int]) -> tuple[int, int]:
    parameters = macs = 0
    for tensor in tensors:
        values = tensor.parameters(units)
        parameters += values
        macs += values * tensor.positions
    return parameters, macs

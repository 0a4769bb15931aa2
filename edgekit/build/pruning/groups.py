"""Channels that can only be removed together, in every tensor that they run through."""

from dataclasses import dataclass, field

from edgekit.build.pruning.costs import Costs

__all__ = ["ChannelGroup", "Skipped", "Slice", "Traced"]


@dataclass(frozen=True, slots=True)
class Slice:
    """Where a group's channels lie in one axis of one tensor.

    Attributes:
        tensor: its name in the network's state.
        axis: from 0.
        units: for each position of the axis the group's unit that it belongs to; -1 where it belongs to none.
    """

    tensor: str
    axis: int
    units: tuple[int, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ChannelGroup:
    """Coupled channels.

    Attributes:
        name: of the layer that leads the group: the first that makes its channels.
        channels: how many there are.
        blocks: grouped convolutions and group norms need as many channels in each of their groups. Channels at the same place
            of each block therefore go together: they are one unit.
        slices: everywhere that they are.
        parameters: that one unit costs, with all other groups as they are.
        macs: likewise, of one photo.
        exact: whether removing channels is the same as setting them to zero, which is not so where a norm runs over channels.
    """

    name: str
    channels: int
    blocks: int
    slices: tuple[Slice, ...]
    parameters: int = 0
    macs: int = 0
    exact: bool = True

    @property
    def units(self) -> int:
        """What is removed at a time: channels, or one channel of each block."""
        return self.channels // self.blocks


@dataclass(frozen=True, slots=True)
class Skipped:
    """A group that cannot be pruned, by the name of its leading layer, and why."""

    group: str
    why: str


@dataclass(frozen=True, slots=True)
class Traced:
    """A network's groups.

    Attributes:
        groups: those that were proved to be removable, in the network's order.
        skipped: those that were not.
        costs: of the whole network; group indices are places in `groups`.
    """

    groups: tuple[ChannelGroup, ...]
    skipped: tuple[Skipped, ...]
    costs: Costs

    @property
    def units(self) -> tuple[int, ...]:
        """Units of each group."""
        return tuple(group.units for group in self.groups)

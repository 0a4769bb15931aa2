"""Remove channels for good: every tensor gets smaller."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import nn

from edgekit.build.pruning.groups import ChannelGroup, Slice
from edgekit.build.structure import reshape

__all__ = ["Removal", "cut", "least_important", "left", "zero"]

Removal = tuple[ChannelGroup, tuple[int, ...]]
"""A group and the units to remove from it."""


def cut(module: nn.Module, removals: Sequence[Removal]) -> None:
    """Remove units, in place; parameters are replaced by new ones.

    Sizes are set by `structure.reshape`, as when the checkpoint is read again: what is written and what is read cannot differ.
    """
    state = module.state_dict()
    for (tensor, axis), keep in _kept(removals).items():
        value = state[tensor]
        chosen = torch.tensor([i for i, kept in enumerate(keep) if kept], device=value.device)
        state[tensor] = value.index_select(axis, chosen)
    reshape(module, state)
    module.load_state_dict(state)


def zero(module: nn.Module, removals: Sequence[Removal]) -> None:
    """Set to zero, in place, what `cut` would remove."""
    state = module.state_dict()
    with torch.no_grad():
        for (tensor, axis), keep in _kept(removals).items():
            value = state[tensor]
            mask = torch.tensor(keep, dtype=value.dtype, device=value.device)
            value.mul_(mask.view([-1 if i == axis else 1 for i in range(value.dim())]))


def left(removals: Sequence[Removal]) -> tuple[ChannelGroup, ...]:
    """The groups as they are after `cut`: units are numbered anew. Prices stay what they were."""
    kept = _kept(removals)
    after = []
    for group, gone in removals:
        number = {unit: i for i, unit in enumerate(sorted(set(range(group.units)) - set(gone)))}
        slices = []
        for each in group.slices:
            stays = zip(each.units, kept[each.tensor, each.axis], strict=True)
            slices.append(Slice(each.tensor, each.axis, tuple(number.get(unit, -1) for unit, keep in stays if keep)))
        after.append(replace(group, channels=len(number) * group.blocks, slices=tuple(slices)))
    return tuple(after)


def least_important(scores: torch.Tensor, count: int) -> tuple[int, ...]:
    """(units,) -> the `count` units of least importance, in ascending order; of equals the later ones go."""
    order = torch.argsort(scores.flip(0), stable=True)[:count]
    return tuple(sorted(len(scores) - 1 - int(i) for i in order))


def _kept(removals: Sequence[Removal]) -> Mapping[tuple[str, int], list[bool]]:
    """(tensor, axis) -> whether each position stays. Where tensors are joined, several groups govern one axis."""
    kept: dict[tuple[str, int], list[bool]] = {}
    for group, units in removals:
        gone = frozenset(units)
        for each in group.slices:
            keep = kept.setdefault((each.tensor, each.axis), [True] * len(each.units))
            for place, unit in enumerate(each.units):
                keep[place] = keep[place] and unit not in gone
    return kept

"""Which channels of a group matter least.

By weight: the L1 norm of a channel's weights (Li et al., Pruning filters for efficient ConvNets, ICLR 2017), here over all
tensors of its group as in DepGraph (Fang et al., CVPR 2023, section 3.3), batch norms and depthwise weights included.

By Taylor: the square of the first-order change of the loss when the channel is removed, summed over batches (Molchanov et al.,
Importance estimation for neural network pruning, CVPR 2019, equation 8).
"""

import copy
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional as F

from edgekit.build.pruning.groups import ChannelGroup, Slice

__all__ = ["by_taylor", "by_weight"]

_NOT_WEIGHTS = ("bias", "running_mean", "running_var")
"""They say where a channel lies, not how much it says."""


def by_weight(module: nn.Module, groups: Sequence[ChannelGroup]) -> tuple[torch.Tensor, ...]:
    """-> for each group (units,) float64: L1 norm of all weights of the unit."""
    state = module.state_dict()
    scores = []
    for group in groups:
        parts = [_per_unit(state[each.tensor].abs(), each, group) for each in _weights(group)]
        scores.append(sum(parts, torch.zeros(group.units, dtype=torch.float64)))
    return tuple(scores)


def by_taylor(
    module: nn.Module, groups: Sequence[ChannelGroup], batches: Sequence[tuple[torch.Tensor, torch.Tensor | None]], *, device: str
) -> tuple[torch.Tensor, ...]:
    """-> for each group (units,) float64: squares of changes of the loss.

    Args:
        module: the network, not changed.
        groups: of its channels.
        batches: (n, 3, h, w) float32 photos, and (n,) int64 labels; without labels the network's own best class stands for one,
            because its own answers as a whole would leave nothing to correct.
        device: `cpu` or `cuda`.
    """
    twin = copy.deepcopy(module).to(device).eval().requires_grad_(True)
    totals = [torch.zeros(group.units, dtype=torch.float64) for group in groups]
    for photos, labels in batches:
        twin.zero_grad()
        logits = twin(photos.to(device))
        wanted = logits.detach().argmax(1) if labels is None else labels.to(device)
        F.cross_entropy(logits, wanted).backward()
        state = twin.state_dict(keep_vars=True)
        for group, total in zip(groups, totals, strict=True):
            total += _first_order(group, state) ** 2
    return tuple(totals)


def _first_order(group: ChannelGroup, state: dict[str, torch.Tensor]) -> torch.Tensor:
    """(units,): for each tensor the sum of weight times gradient, by magnitude.

    In front of a batch norm it is zero, as it should be: there only direction counts.
    """
    total = torch.zeros(group.units, dtype=torch.float64)
    for each in _weights(group):
        weight = state[each.tensor]
        if weight.grad is not None:
            total += _per_unit(weight.detach() * weight.grad, each, group).abs()
    return total


def _weights(group: ChannelGroup) -> list[Slice]:
    return [each for each in group.slices if each.tensor.rpartition(".")[2] not in _NOT_WEIGHTS]


def _per_unit(values: torch.Tensor, each: Slice, group: ChannelGroup) -> torch.Tensor:
    """Values of a tensor -> (units,) float64 on the CPU: summed over everything that belongs to a unit."""
    others = [axis for axis in range(values.dim()) if axis != each.axis]
    per_position = (values.double().sum(others) if others else values.double()).cpu()
    units = torch.tensor(each.units)
    mine = units >= 0
    return torch.zeros(group.units, dtype=torch.float64).index_add_(0, units[mine], per_position[mine])

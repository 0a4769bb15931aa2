"""Whether a group really holds all channels that go together: cut half of it by lot and look.

Removing channels must be the same as setting them, in every tensor of the group, to zero. A network that shuffles channels, or
looks at their number, answers differently, or fails.
"""

import copy
from collections.abc import Sequence

import torch
from torch import nn

from edgekit.build.pruning.cut import Removal, cut, zero
from edgekit.build.pruning.groups import ChannelGroup, Skipped
from edgekit.build.user_code import FAILURES, first_line
from edgekit.spec.errors import InputError

__all__ = ["prove", "proved"]

TOLERANCE = 1e-6
"""Of the largest answer, in float64; sums in another order differ by less than 1e-12, wrong channels by far more."""
TOLERANCE_SINGLE = 1e-3
"""For networks that only compute in float32."""


def proved(
    module: nn.Module, groups: Sequence[ChannelGroup], *, resolution_px: int
) -> tuple[tuple[ChannelGroup, ...], tuple[Skipped, ...]]:
    """(groups that can be cut, those that cannot and why); the network is not changed."""
    exact, image = _precise(module, resolution_px)
    removals = [_half(group) for group in groups]
    if not _fault(exact, removals, image):
        return tuple(groups), ()
    good: list[Removal] = []
    bad: list[Skipped] = []
    for removal in removals:
        why = _fault(exact, [*good, removal], image)
        if why:
            bad.append(Skipped(removal[0].name, why))
        else:
            good.append(removal)
    return tuple(group for group, _ in good), tuple(bad)


def prove(module: nn.Module, removals: Sequence[Removal], *, resolution_px: int) -> None:
    """Try these removals; the network is not changed.

    Raises:
        InputError: `prune-trace`.
    """
    exact, image = _precise(module, resolution_px)
    why = _fault(exact, removals, image)
    if why:
        raise InputError(
            f"the pruned network is not what it should be: {why}",
            where=", ".join(group.name for group, _ in removals[:3]),
            fix="leave --prune out",
            code="prune-trace",
        )


def _half(group: ChannelGroup) -> Removal:
    """Without a pattern: one that treats both halves of a split alike would prove nothing of splits."""
    order = torch.randperm(group.units, generator=torch.Generator().manual_seed(group.units))
    return group, tuple(sorted(int(i) for i in order[: group.units // 2]))


def _precise(module: nn.Module, resolution_px: int) -> tuple[nn.Module, torch.Tensor]:
    """The network and an image in float64, or in float32 where it takes no other."""
    noise = torch.randn(1, 3, resolution_px, resolution_px, generator=torch.Generator().manual_seed(0))
    double = copy.deepcopy(module).double()
    try:
        with torch.no_grad():
            double(noise.double())
    except FAILURES:
        return module, noise
    return double, noise.double()


def _fault(module: nn.Module, removals: Sequence[Removal], image: torch.Tensor) -> str:
    """What is wrong after the removals; empty if nothing is."""
    zeroed, smaller = copy.deepcopy(module), copy.deepcopy(module)
    zero(zeroed, removals)
    with torch.no_grad():
        expected = zeroed(image)
        try:
            cut(smaller, removals)
            answer = smaller(image)
        except FAILURES as error:
            return f"with fewer channels the network fails: {type(error).__name__}: {first_line(error)}"
    if answer.shape != expected.shape:
        return f"with fewer channels it answers {tuple(answer.shape)} instead of {tuple(expected.shape)}"
    if not all(group.exact for group, _ in removals):
        return "" if answer.isfinite().all() else "with fewer channels it answers no numbers"
    tolerance = TOLERANCE if answer.dtype == torch.float64 else TOLERANCE_SINGLE
    if not (answer - expected).abs().max() <= tolerance * expected.abs().max():
        return "its channels are not followed rightly through the network, as where channels are shuffled"
    return ""

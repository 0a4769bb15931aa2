"""How much the loss rises when part of one group is removed, everything else as it is."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from edgekit.build.pipeline import Progress
from edgekit.build.pruning.cut import cut, least_important
from edgekit.build.pruning.groups import ChannelGroup

__all__ = ["SHARES", "Judge", "loss_rises"]

SHARES = (0.25, 0.5, 0.75)
"""Of a group's units that are removed on trial, those of least importance first."""

BROKEN_NATS = 100.0
"""What a loss that is no number counts."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Photos to judge on.

    Attributes:
        photos: batches of (n, 3, h, w) float32.
        labels: batches of (n,) int64; None judges by how far the answers move away from the whole network's.
        device: `cpu` or `cuda`, to run on.
    """

    photos: tuple[torch.Tensor, ...]
    labels: tuple[torch.Tensor, ...] | None
    device: str = "cpu"

    @property
    def batches(self) -> tuple[tuple[torch.Tensor, torch.Tensor | None], ...]:
        """(photos, labels or None)."""
        return tuple((x, None if self.labels is None else self.labels[i]) for i, x in enumerate(self.photos))

    def answers(self, module: nn.Module) -> torch.Tensor:
        """-> (photos, classes) float64 logits on the CPU."""
        with torch.inference_mode():
            return torch.cat([module(x.to(self.device)).double().cpu() for x in self.photos])

    def loss(self, logits: torch.Tensor, whole: torch.Tensor) -> float:
        """Cross entropy to the labels, else the divergence from the whole network's answers; in nats."""
        if self.labels is not None:
            found = float(F.cross_entropy(logits, torch.cat(self.labels)))
        else:
            found = float(F.kl_div(logits.log_softmax(1), whole.log_softmax(1), log_target=True, reduction="batchmean"))
        return found if found == found and abs(found) < BROKEN_NATS else BROKEN_NATS


def loss_rises(
    module: nn.Module, groups: Sequence[ChannelGroup], scores: Sequence[torch.Tensor], judge: Judge, *, progress: Progress
) -> tuple[tuple[float, ...], ...]:
    """-> for each group by how much the loss rises, in nats, at each of `SHARES`; never below zero, never falling.

    Channels are really removed, from a copy: that also holds for norms over channels, where setting them to zero does not.

    Args:
        module: the whole network, not changed.
        groups: of its channels.
        scores: importance of the units of each group.
        judge: photos.
        progress: told after each group.
    """
    whole = copy.deepcopy(module).to(judge.device).eval()
    answers = judge.answers(whole)
    before = judge.loss(answers, answers)
    rises = []
    for index, (group, score) in enumerate(zip(groups, scores, strict=True)):
        progress(index / len(groups), f"sensitivity of {group.name}, {index + 1} of {len(groups)}")
        found = [0.0]
        for share in SHARES:
            count = min(group.units - 1, round(share * group.units))
            smaller = copy.deepcopy(whole)
            cut(smaller, [(group, least_important(score, count))])
            found.append(max(found[-1], judge.loss(judge.answers(smaller), answers) - before))
        rises.append(tuple(found[1:]))
    return tuple(rises)

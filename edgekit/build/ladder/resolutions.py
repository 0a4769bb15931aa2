"""One network at several resolutions: statistics of batch norms for each, and whether they are worth weights of its own.

Batch norms are folded into convolutions before quantization, so statistics of one resolution are weights of one resolution: rungs
that have their own no longer share their weights in a payload. Wang et al., Resolution Switchable Networks (arXiv 2007.09558),
keep them apart while training too; here the network is trained at mixed resolutions and they are measured afterwards.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from edgekit.bench.stats import drop_interval
from edgekit.build.data import Dataset
from edgekit.build.facts import Facts
from edgekit.build.ladder.resolution_check import check_resolutions
from edgekit.build.splits import Parts
from edgekit.build.tensors import batches
from edgekit.build.training.evaluate import evaluate

__all__ = ["Statistics", "choose_statistics", "recalibrated"]

PHOTOS = 1024
"""For statistics: EfficientNet-Lite0 at 128 px answers 71.7 % right with those of 256 photos, 71.0 % with those of 1024."""

_BATCH = 64

Norm = nn.modules.batchnorm._BatchNorm


@dataclass(frozen=True, slots=True)
class Statistics:
    """What statistics of its own would bring a resolution, on photos to tune.

    Attributes:
        resolution_px: side of the input.
        photos: judged.
        labelled: whether top-1 counts right answers; else agreement with the network at the resolution that it was trained for.
        shared_top1: 0..1 with the weights as they are.
        own_top1: 0..1 with statistics of this resolution.
        gain_pp: what its own bring, in points.
        interval_pp: 95 % of it, the photos being the same.
    """

    resolution_px: int
    photos: int
    labelled: bool
    shared_top1: float
    own_top1: float
    gain_pp: float
    interval_pp: tuple[float, float]

    @property
    def own(self) -> bool:
        """Whether its own are significantly better: only then are they worth weights that no other rung shares."""
        return self.interval_pp[0] > 0


def recalibrated(
    network: nn.Module,
    photos: Dataset,
    facts: Facts,
    *,
    resolution_px: int,
    most: int = PHOTOS,
    seen: Callable[[int], None] = lambda done: None,
) -> nn.Module:
    """-> a copy in evaluation mode whose batch norms hold the statistics of photos of one resolution; weights are untouched.

    Means and variances are cumulative averages over batches of almost one size. Everything but the batch norms stays in
    evaluation mode, so nothing is drawn. A network without batch norms comes back as it was.

    Args:
        network: (n, 3, side, side) -> (n, classes).
        photos: to fit; labels are not looked at.
        facts: of the network.
        resolution_px: side of the photos.
        most: photos that are looked at, spread evenly over the classes.
        seen: told how many photos are done.

    Raises:
        InputError: `resolutions`; the network's stride forbids this one.
    """
    check_resolutions(network, (resolution_px,), name=facts.name)
    module = copy.deepcopy(network)
    module.train(False)
    norms = [layer for layer in module.modules() if isinstance(layer, Norm) and layer.track_running_stats]
    if not norms:
        return module
    memories = [norm.momentum for norm in norms]
    data = _mixed(photos.take(most))
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # torch's name for a cumulative average
        norm.train()
    # A last batch of a few photos would count as much as a full one.
    size = -(-len(data) // -(-len(data) // _BATCH))
    with torch.no_grad():
        for done, batch in enumerate(batches(data, facts.at(resolution_px), size=size), start=1):
            module(batch)
            seen(min(done * size, len(data)))
    for norm, memory in zip(norms, memories, strict=True):
        norm.momentum = memory
    return module.train(False)


def _mixed(photos: Dataset) -> Dataset:
    """The same photos in another order: folders hold one class each, and a batch of one class has too little variance."""
    order = np.random.default_rng(0).permutation(len(photos))
    return replace(photos, samples=tuple(photos.samples[i] for i in order))


def choose_statistics(
    network: nn.Module,
    parts: Parts,
    facts: Facts,
    *,
    resolution_px: int,
    seen: Callable[[int], None] = lambda done: None,
) -> tuple[nn.Module, Statistics]:
    """-> (a copy with statistics of this resolution, what they bring on photos to tune). Photos to report on are not looked at.

    Raises:
        InputError: see `recalibrated`.
    """
    own = recalibrated(network, parts.fit, facts, resolution_px=resolution_px, seen=seen)
    here = facts.at(resolution_px)
    answers = [evaluate(module, parts.tune, here).argmax(1) for module in (network, own)]
    labels = parts.tune.labels
    wanted = evaluate(network, parts.tune, facts).argmax(1) if labels is None else np.asarray(labels)
    shared_right, own_right = (answer == wanted for answer in answers)
    # A drop from the second to the first is a gain of the second.
    gain, interval = drop_interval(own_right, shared_right)
    return own, Statistics(
        resolution_px=resolution_px,
        photos=len(wanted),
        labelled=labels is not None,
        shared_top1=float(shared_right.mean()),
        own_top1=float(own_right.mean()),
        gain_pp=100 * gain,
        interval_pp=(100 * interval[0], 100 * interval[1]),
    )

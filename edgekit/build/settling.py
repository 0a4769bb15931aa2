"""Random networks that can be compared: activations of a realistic size, and answers that depend on the photo.

Nobody trained them, so their answers mean nothing. But a payload can only be told from a wrong one if activations neither
vanish nor explode over fifty layers, and if the best answer is more than rounding ahead of the second.
"""

import torch
from torch import nn

from edgekit.build.data import sample_photos
from edgekit.build.facts import Facts
from edgekit.build.tensors import pictures, to_tensor

__all__ = ["PHOTOS", "settle"]

PHOTOS = 32
SMALLEST_SCALE = 0.5
RIDGE = 0.1


def settle(module: nn.Module, facts: Facts, *, seed: int) -> None:
    """Measure batch-norm statistics on photos, then let the head tell those photos apart; in place.

    Batch-norm scales that start at zero, as those that end a residual block do in some libraries, would erase the block.
    """
    data = sample_photos("calibration", PHOTOS, seed=seed)
    photos = to_tensor(pictures(data, facts), facts)
    norms = [m for m in module.modules() if isinstance(m, nn.BatchNorm2d)]
    for norm in norms:
        if norm.affine and not norm.weight.any():
            nn.init.constant_(norm.weight, SMALLEST_SCALE)
        norm.reset_running_stats()
        norm.momentum = None
        norm.train()
    with torch.no_grad():
        if norms:
            module(photos)
        module.eval()
        heads = [m for m in module.modules() if isinstance(m, nn.Linear)]
        if heads and heads[-1].out_features > 1:
            _tell_apart(module, heads[-1], photos, [str(sample.source) for sample in data.samples])


def _tell_apart(module: nn.Module, head: nn.Linear, crops: torch.Tensor, photos: list[str]) -> None:
    """Give one class to each photo, by ridge regression on what the head sees of its crops; others stay small and random."""
    seen: list[torch.Tensor] = []
    hook = head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        for crop in crops:
            module(crop[None])
    finally:
        hook.remove()
    features = torch.cat(seen).double()
    if features.dim() != 2:
        return
    mean = features.mean(0)
    centred = features - mean
    names = sorted(set(photos))
    wanted = torch.tensor([[float(photo == name) for photo in photos] for name in names], dtype=features.dtype)
    gram = centred @ centred.T
    if not gram.diagonal().mean() > 0:
        return  # every photo looks the same to the head: there is nothing to tell apart
    ridge = RIDGE * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)
    weights = (wanted - wanted.mean(0)) @ torch.linalg.solve(gram + ridge, centred)
    count = min(len(weights), head.out_features)
    others = head.weight.double()
    others *= 0.1 * weights.norm(dim=1).mean() / others.norm(dim=1).mean()
    others[:count] = weights[:count]
    head.weight.copy_(others)
    if head.bias is not None:
        head.bias.copy_(-(others @ mean))

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
    photos = to_tensor(pictures(sample_photos("calibration", PHOTOS, seed=seed), facts), facts)
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
            _tell_apart(module, heads[-1], photos)


def _tell_apart(module: nn.Module, head: nn.Linear, photos: torch.Tensor) -> None:
    """Give one class to each photo by ridge regression on the head's inputs; other classes keep small random weights."""
    seen: list[torch.Tensor] = []
    hook = head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        for photo in photos:
            module(photo[None])
    finally:
        hook.remove()
    features = torch.cat(seen).double()
    if features.dim() != 2:
        return
    mean = features.mean(0)
    centred = features - mean
    gram = centred @ centred.T
    weights = torch.linalg.solve(gram + RIDGE * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype), centred)
    count = min(len(weights), head.out_features)
    others = head.weight.double()
    others *= 0.1 * weights.norm(dim=1).mean() / others.norm(dim=1).mean()
    others[:count] = weights[:count]
    head.weight.copy_(others)
    if head.bias is not None:
        head.bias.copy_(-(others @ mean))

"""What a network answers, on photos prepared exactly as at run time."""

import numpy as np
import torch
from torch import nn

from edgekit.build.data import Dataset
from edgekit.build.facts import Facts
from edgekit.build.training.samples import Samples, loader, normalise

__all__ = ["evaluate"]


def evaluate(module: nn.Module, data: Dataset, facts: Facts, *, device: str = "cpu", batch_size: int = 64) -> np.ndarray:
    """-> (photos, classes) float32 logits in the data's order; the module is in evaluation mode afterwards, where it was before.

    Args:
        module: the network.
        data: photos; labels are not looked at.
        facts: resolution and preprocessing.
        device: `cpu` or `cuda`, to run on.
        batch_size: photos at a time.
    """
    samples = Samples((data,), facts, seed=0, augment=False)
    keys = [(0, 0, index) for index in range(len(data))]
    batches = [keys[i : i + batch_size] for i in range(0, len(keys), batch_size)]
    first = next(module.parameters(), torch.empty(0))
    module.to(device)
    module.train(False)
    logits = []
    try:
        with torch.no_grad():
            for pixels, _ in loader(samples, batches, device=device):
                x = normalise(pixels.to(device, non_blocking=True), facts)
                logits.append(module(x).float().cpu().numpy())
    finally:
        module.to(first.device)
    return np.concatenate(logits) if logits else np.zeros((0, facts.classes), np.float32)

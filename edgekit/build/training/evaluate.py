"""What a network answers, on photos or texts prepared exactly as at run time."""

import numpy as np
import torch
from torch import nn

from edgekit.build.training.material import Data, NetworkFacts, lengths_of, material_of
from edgekit.build.training.samples import loader

__all__ = ["evaluate"]


def evaluate(module: nn.Module, data: Data, facts: NetworkFacts, *, device: str = "cpu", batch_size: int = 64) -> np.ndarray:
    """-> (samples, ...) float32 in the data's order: (samples, classes) logits of a plain network.

    The module is in evaluation mode afterwards, where it was before.

    Args:
        module: the network.
        data: photos or texts; labels are not looked at.
        facts: of the network.
        device: `cpu` or `cuda`, to run on.
        batch_size: samples at a time.
    """
    samples = material_of((data,), facts, seed=0, augment=False)
    # Texts of like length together, so that little is padded.
    order = np.argsort(lengths_of(data) or np.zeros(len(data)), kind="stable")
    keys = [(0, 0, int(index)) for index in order]
    batches = [keys[i : i + batch_size] for i in range(0, len(keys), batch_size)]
    first = next(module.parameters(), torch.empty(0))
    module.to(device)
    module.train(False)
    logits = []
    try:
        with torch.no_grad():
            for batch, _ in loader(samples, batches, device=device):
                x = samples.prepare(batch.to(device, non_blocking=True))
                logits.append(module(x).float().cpu().numpy())
    finally:
        module.to(first.device)
    return np.concatenate(logits)[np.argsort(order)] if logits else np.zeros((0, facts.classes), np.float32)

"""How fast the weights change."""

import math

import torch
from torch import nn

from edgekit.build.training.plan import Training

__all__ = ["optimizer_of", "rate"]


def rate(step: int, *, steps: int, training: Training) -> float:
    """Learning rate of a step (from 0) out of `steps`: linear warm-up, then half a cosine to zero.

    Loshchilov and Hutter, SGDR (arXiv 1608.03983), section 3, without restarts.
    """
    warm = min(round(training.warmup * steps), steps - 1)
    if step < warm:
        return training.learning_rate * (step + 1) / (warm + 1)
    return training.learning_rate * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


def optimizer_of(modules: tuple[nn.Module, ...], training: Training, *, new: tuple[str, ...] = ()) -> torch.optim.AdamW:
    """AdamW (Loshchilov and Hutter, arXiv 1711.05101) over all parameters that take gradients; no decay on vectors.

    Vectors are biases and scales of norms: they do not overfit, and a norm's scale that decays only shrinks its layer.

    Args:
        modules: whose parameters learn.
        training: how fast.
        new: names of the first module's parameters that learn at a rate of their own, see `Training.new_factor`.
    """
    named = {f"{i}.{name}": p for i, module in enumerate(modules) for name, p in module.named_parameters() if p.requires_grad}
    fast = {f"0.{name}" for name in new} if training.new_factor != 1 else set()
    groups = []
    for factor, chosen in ((1.0, named.keys() - fast), (training.new_factor, named.keys() & fast)):
        parameters = [p for name, p in named.items() if name in chosen]
        groups += [
            {"params": [p for p in parameters if p.dim() > 1], "weight_decay": training.weight_decay, "factor": factor},
            {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0, "factor": factor},
        ]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=training.learning_rate)

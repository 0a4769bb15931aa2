"""How much a network computes."""

import torch
from torch import nn

__all__ = ["macs_of"]


def macs_of(module: nn.Module, resolution_px: int) -> int:
    """Multiply-accumulates of one (3, resolution, resolution) photo in convolutions and linear layers."""
    total = 0

    def count(layer: nn.Module, _: object, output: torch.Tensor) -> None:
        nonlocal total
        if isinstance(layer, nn.Conv2d | nn.Conv1d | nn.Linear):
            # Each output value takes one product for each weight of its filter.
            total += output.numel() * layer.weight[0].numel()

    hooks = [
        layer.register_forward_hook(count) for layer in module.modules() if isinstance(layer, nn.Conv2d | nn.Conv1d | nn.Linear)
    ]
    place = next((p.device for p in module.parameters()), torch.device("cpu"))
    try:
        with torch.no_grad():
            module(torch.zeros(1, 3, resolution_px, resolution_px, device=place))
    finally:
        for hook in hooks:
            hook.remove()
    return total

"""How much a network computes."""

import torch
from torch import nn

__all__ = ["macs_of", "places_of"]

COUNTED = (nn.Conv2d, nn.Conv1d, nn.Linear)


def macs_of(module: nn.Module, resolution_px: int) -> int:
    """Multiply-accumulates of one (3, resolution, resolution) photo in convolutions and linear layers."""
    place = next((p.device for p in module.parameters()), torch.device("cpu"))
    places = places_of(module, torch.zeros(1, 3, resolution_px, resolution_px, device=place))
    return sum(count * module.get_parameter(key).numel() for key, count in places.items())


def places_of(module: nn.Module, image: torch.Tensor) -> dict[str, int]:
    """Weight -> places of the output where each of its values is multiplied once, for one (1, 3, h, w) image."""
    found: dict[str, int] = {}
    names = {layer: name for name, layer in module.named_modules()}

    def count(layer: nn.Module, _: object, output: torch.Tensor) -> None:
        key = f"{names[layer]}.weight"
        found[key] = found.get(key, 0) + output.numel() // layer.weight.shape[0]

    hooks = [layer.register_forward_hook(count) for layer in names if isinstance(layer, COUNTED)]
    try:
        with torch.no_grad():
            module(image)
    finally:
        for hook in hooks:
            hook.remove()
    return found

"""Pieces that cases are made of: a network from functions, and weights like those of trained networks."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

__all__ = ["Net", "conv", "louder", "norm"]


class Net(nn.Module):
    """Named parts and a function that joins them: `Net(lambda net, x: net.conv(x), conv=...)`; its result is flattened.

    Flattening keeps every element visible: a pooling and linear layer at the end would average differences away.
    """

    def __init__(self, join: Callable[["Net", Tensor], Tensor], **parts: nn.Module) -> None:
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)
        self.join = join

    def forward(self, x: Tensor) -> Tensor:
        return torch.flatten(self.join(self, x), 1)


def conv(
    inputs: int, outputs: int, kernel: int | tuple[int, int] = 3, *, padding: int | tuple[int, int] | None = None, **options
):
    """A convolution of unit gain with channels of different size, as trained ones have, and biases of both signs."""
    if padding is None:
        padding = kernel // 2
    layer = nn.Conv2d(inputs, outputs, kernel, padding=padding, **options)
    fan_in = layer.weight[0].numel()
    with torch.no_grad():
        spread = torch.exp(torch.empty(outputs).uniform_(-1, 1)).reshape(-1, 1, 1, 1)
        layer.weight.normal_(0, (2.0 / fan_in) ** 0.5).mul_(spread)
        if layer.bias is not None:
            layer.bias.normal_(0, 0.5)
    return layer


def louder(layer: nn.Conv2d, gain: float) -> nn.Conv2d:
    """The same convolution with a wider range."""
    with torch.no_grad():
        layer.weight.mul_(gain)
    return layer


def norm(channels: int) -> nn.BatchNorm2d:
    """A batch norm with statistics of its own."""
    layer = nn.BatchNorm2d(channels)
    with torch.no_grad():
        layer.weight.uniform_(0.5, 1.5)
        layer.bias.normal_(0, 0.3)
        layer.running_mean.normal_(0, 0.3)
        layer.running_var.uniform_(0.5, 2.0)
    return layer

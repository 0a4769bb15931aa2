"""Plain k x k convolutions -> depthwise k x k and pointwise 1 x 1, which take a fraction of the multiplications.

Before: `conv(in, out, k)`. After: `depthwise(in, in, k, groups=in)`, then `pointwise(in, out, 1)` with the bias. For each input
channel the (out, k * k) weights become the nearest product of a column and one kernel: the largest singular value and its
vectors. Sources: Jaderberg et al., Speeding up convolutional neural networks with low rank expansions (BMVC 2014); Guo et al.,
Network decoupling (BMVC 2018), whose pointwise-after-depthwise form with one term this is.
"""

import copy
from collections.abc import Sequence

import torch
from torch import nn

from edgekit.spec.errors import InputError

__all__ = ["LEAST_INPUTS", "SeparableConv2d", "candidates", "factorise", "replace_layers"]

LEAST_INPUTS = 16
"""Input channels below which a convolution stays: that spares the stem, which all others depend on and which costs little."""


class SeparableConv2d(nn.Module):
    """(n, in, h, w) -> (n, out, h', w') as the convolution that it stands for."""

    def __init__(self, layer: nn.Conv2d) -> None:
        """Structure only: weights are those of `factorise`, or of a checkpoint."""
        super().__init__()
        inputs, outputs = layer.in_channels, layer.out_channels
        # A copy: stride, padding, dilation and what a subclass does before it convolves go along.
        self.depthwise = copy.deepcopy(layer)
        self.depthwise.out_channels = self.depthwise.groups = inputs
        self.depthwise.weight = nn.Parameter(layer.weight.new_empty(inputs, 1, *layer.kernel_size))
        self.depthwise.bias = None
        like = {"device": layer.weight.device, "dtype": layer.weight.dtype}
        self.pointwise = nn.Conv2d(inputs, outputs, 1, bias=layer.bias is not None, **like)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Depthwise, then pointwise."""
        return self.pointwise(self.depthwise(x))


def candidates(module: nn.Module) -> tuple[str, ...]:
    """Names of the convolutions that would take fewer multiplications."""
    return tuple(name for name, layer in module.named_modules() if _why_not(layer) == "")


def replace_layers(module: nn.Module, names: Sequence[str]) -> None:
    """Put separable convolutions in place of plain ones, in place; values stay unset.

    Raises:
        InputError: `separable-layer`; a name is not of a convolution that can be replaced.
    """
    for name in names:
        layer = _layer(module, name)
        parent, _, last = name.rpartition(".")
        made = SeparableConv2d(layer).train(layer.training).requires_grad_(layer.weight.requires_grad)
        setattr(module.get_submodule(parent), last, made)


def factorise(module: nn.Module, names: Sequence[str] | None = None) -> tuple[tuple[str, float], ...]:
    """Replace convolutions, in place -> (name, relative error of the weights, 0..1) of each.

    Args:
        module: the network.
        names: which; None all `candidates`.

    Raises:
        InputError: `separable-layer`.
    """
    chosen = candidates(module) if names is None else tuple(names)
    layers = [_layer(module, name) for name in chosen]
    replace_layers(module, chosen)
    errors = []
    for name, layer in zip(chosen, layers, strict=True):
        made = module.get_submodule(name)
        depthwise, pointwise, error = _nearest(layer.weight.detach())
        with torch.no_grad():
            made.depthwise.weight.copy_(depthwise)
            made.pointwise.weight.copy_(pointwise)
            if layer.bias is not None:
                made.pointwise.bias.copy_(layer.bias)
        errors.append((name, error))
    return tuple(errors)


def _nearest(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, float]:
    """(out, in, k, k) -> (in, 1, k, k), (out, in, 1, 1) and the relative error of their product."""
    outputs, inputs, *kernel = weight.shape
    matrices = weight.double().permute(1, 0, 2, 3).reshape(inputs, outputs, -1)
    left, values, right = torch.linalg.svd(matrices, full_matrices=False)
    # The sign is free: kernels whose weights sum to something positive keep brightness what it was.
    sign = torch.where(right[:, 0].sum(-1) < 0, -1.0, 1.0).to(matrices)
    root = values[:, 0].sqrt()
    rows, columns = right[:, 0] * (sign * root)[:, None], left[:, :, 0] * (sign * root)[:, None]
    error = (matrices - columns[:, :, None] * rows[:, None, :]).norm() / matrices.norm().clamp_min(1e-30)
    depthwise = rows.reshape(inputs, 1, *kernel).to(weight.dtype)
    return depthwise, columns.T.reshape(outputs, inputs, 1, 1).to(weight.dtype), float(error)


def _layer(module: nn.Module, name: str) -> nn.Conv2d:
    found = dict(module.named_modules()).get(name)
    why = "there is no such layer" if found is None else _why_not(found)
    if why or not isinstance(found, nn.Conv2d):
        raise InputError(
            f"layer {name!r} cannot become a separable convolution: {why}",
            where=name,
            fix=f"name some of: {', '.join(candidates(module)) or 'none'}",
            code="separable-layer",
        )
    return found


def _why_not(layer: nn.Module) -> str:
    """Why a layer stays as it is; empty for one that can be replaced."""
    if not isinstance(layer, nn.Conv2d):
        return f"it is a {type(layer).__name__}"
    if layer.groups > 1:
        return "its channels are in groups already"
    if min(layer.kernel_size) < 3:
        return f"its kernel is {layer.kernel_size[0]}x{layer.kernel_size[1]}"
    if layer.in_channels < LEAST_INPUTS:
        return f"it has only {layer.in_channels} input channels"
    area = layer.kernel_size[0] * layer.kernel_size[1]
    return "" if area + layer.out_channels < area * layer.out_channels else "it would not get cheaper"

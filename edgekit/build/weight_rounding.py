"""Round the weights of a layer so that their errors cancel on the inputs it sees, instead of each to its nearest step.

Nearest rounding is right for one weight alone. A depthwise kernel sums nine inputs that are much alike, so nine errors of one
sign add up; rounding one weight up when its neighbours went down costs nothing and removes most of it. Weights are rounded one
after the other, and each hands its error on to those still free, by the second moments of the inputs.

Source: Frantar et al., GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers, ICLR 2023, section 3.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import fx

from edgekit.build.graph import attribute
from edgekit.build.integer import DEQUANTIZE_CHANNELS
from edgekit.build.walk import Walk, go_on, linears

__all__ = ["carry_weights", "round_weights", "rounded"]

LARGEST = 1536
"""Inputs of a weight row, beyond which its errors average out and the cubic cost does not pay."""

POSITIONS = 64
"""Places of each photo at which a convolution's inputs are looked at."""

DAMPING = 0.01
BLOCK = 64
STEPS = 127

aten = torch.ops.aten


def round_weights(graph: fx.GraphModule, folded: fx.GraphModule, unfolded: Sequence[fx.GraphModule], photos: torch.Tensor) -> int:
    """Give the converted forms of the float `graph` better rounded weights, on the scales they have; returns how many changed.

    Args:
        graph: the float network.
        folded: converted, weights int8; they change in place.
        unfolded: converted, weights float; they become multiples of their scale.
        photos: (n, 3, h, w).
    """
    layers = linears(graph)
    forms = [linears(form) for form in (folded, *unfolded)]
    weights = [attribute(graph, layer.args[1].target).detach() for layer in layers]
    moments = _moments(graph, layers, photos)
    count = 0
    for index, (weight, moment) in enumerate(zip(weights, moments, strict=True)):
        behind, *others = (form[index].args[1] for form in forms)
        shared = sum(weight.data_ptr() == other.data_ptr() for other in weights) > 1
        if moment is None or shared or any(d.target is not DEQUANTIZE_CHANNELS for d in (behind, *others)):
            continue
        scales = attribute(folded, behind.args[1].target).double()
        steps = rounded(weight.double(), scales, moment)
        attribute(folded, behind.args[0].target).data = steps.to(torch.int8)
        values = (steps * scales.view(-1, *(1,) * (weight.dim() - 1))).to(weight.dtype)
        for form, dequantize in zip(unfolded, others, strict=True):
            attribute(form, dequantize.args[0].args[0].target).data = values.clone()
        count += 1
    return count


def carry_weights(source: fx.GraphModule, folded: fx.GraphModule, unfolded: Sequence[fx.GraphModule]) -> int:
    """Give the converted forms of a network the int8 weights of another conversion of it, such as for another resolution.

    Each keeps its own scales, one a channel, which are the same where the float weights are. Returns how many layers took them.

    Args:
        source: converted, weights int8.
        folded: converted, weights int8; they change in place.
        unfolded: converted, weights float; they become multiples of their scale.

    Raises:
        ValueError: other layers, or weights of another shape.
    """
    count = 0
    for given, taking, *others in zip(*(linears(form) for form in (source, folded, *unfolded)), strict=True):
        weights = (given.args[1], taking.args[1], *(other.args[1] for other in others))
        if any(weight.target is not DEQUANTIZE_CHANNELS for weight in weights):
            continue
        steps = attribute(source, weights[0].args[0].target)
        mine = attribute(folded, weights[1].args[0].target)
        if steps.shape != mine.shape:
            raise ValueError(f"{taking.name} has weights {tuple(mine.shape)}, not {tuple(steps.shape)}")
        mine.data = steps.clone()
        scales = attribute(folded, weights[1].args[1].target).double().view(-1, *(1,) * (steps.dim() - 1))
        for form, dequantize in zip(unfolded, weights[2:], strict=True):
            target = attribute(form, dequantize.args[0].args[0].target)
            target.data = (steps.double() * scales).to(target.dtype)
        count += 1
    return count


def rounded(weight: torch.Tensor, scales: torch.Tensor, moments: torch.Tensor) -> torch.Tensor:
    """(out, in / groups, ...) and (out,) -> integers of the weight's shape, never worse than the nearest ones.

    Args:
        weight: float64.
        scales: float64, one an output channel.
        moments: (groups, k, k), mean of x x^T over the k inputs of a weight row.
    """
    groups, k, _ = moments.shape
    rows = weight.reshape(groups, -1, k) / scales.view(groups, -1, 1)
    mean = moments.diagonal(dim1=1, dim2=2).mean(1)
    damped = moments + torch.diag_embed((DAMPING * mean + torch.finfo(torch.float32).tiny)[:, None].expand(-1, k))
    # The inputs that matter most go first, while all others are still free to make up for their error.
    order = moments.diagonal(dim1=1, dim2=2).argsort(dim=1, descending=True, stable=True)
    damped = damped.gather(1, order[:, :, None].expand(-1, -1, k)).gather(2, order[:, None, :].expand(-1, k, -1))
    places = order[:, None, :].expand_as(rows)
    found = torch.empty_like(rows).scatter(2, places, _one_by_one(rows.gather(2, places), damped))
    nearest = rows.round().clamp(-STEPS, STEPS)
    better = _error(found - rows, moments) < _error(nearest - rows, moments)
    return torch.where(better[:, :, None], found, nearest).reshape(weight.shape)


def _one_by_one(rows: torch.Tensor, moments: torch.Tensor) -> torch.Tensor:
    """(groups, rows, k) in steps -> the same, rounded from left to right.

    The upper Cholesky factor of the inverse moments holds, row by row, how the error of a weight is best spread over those after
    it. Within a block errors are handed on at once, to later blocks in one product.
    """
    rows, k = rows.clone(), rows.shape[2]
    spread = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(moments)), upper=True)
    out = torch.empty_like(rows)
    for start in range(0, k, BLOCK):
        end = min(start + BLOCK, k)
        errors = torch.zeros_like(rows[:, :, start:end])
        for i in range(start, end):
            out[:, :, i] = rows[:, :, i].round().clamp(-STEPS, STEPS)
            error = (rows[:, :, i] - out[:, :, i]) / spread[:, i, i, None]
            errors[:, :, i - start] = error
            rows[:, :, i:end] -= error[:, :, None] * spread[:, None, i, i:end]
        rows[:, :, end:] -= errors @ spread[:, start:end, end:]
    return out


def _error(difference: torch.Tensor, moments: torch.Tensor) -> torch.Tensor:
    """(groups, rows, k) -> (groups, rows): mean square of what the layer's output is off by."""
    return ((difference @ moments) * difference).sum(2)


def _moments(graph: fx.GraphModule, layers: Sequence[fx.Node], photos: torch.Tensor) -> list[torch.Tensor | None]:
    """(groups, k, k) float64 for each layer; None for those left alone."""
    walk, chance = Walk(graph), torch.Generator().manual_seed(0)
    weights = [attribute(graph, layer.args[1].target) for layer in layers]
    found: list[torch.Tensor | None] = [None] * len(layers)
    with torch.no_grad():
        for photo in photos:
            run = walk.layers(photo[None])
            step: tuple[torch.Tensor, torch.Tensor] | None = next(run)
            for index, (layer, weight) in enumerate(zip(layers, weights, strict=True)):
                if step is None:
                    break
                inputs = _inputs(layer, step[0], weight, chance)
                if inputs is not None:
                    found[index] = _add_moment(found[index], inputs)
                step = go_on(run, step[1])
    return [None if moment is None else moment.double() / len(photos) for moment in found]


def _add_moment(total: torch.Tensor | None, inputs: torch.Tensor) -> torch.Tensor:
    """`total` plus the mean of x x^T over the places of one photo."""
    inputs = inputs / inputs.shape[2] ** 0.5
    return inputs @ inputs.mT if total is None else total.baddbmm_(inputs, inputs.mT)


def _inputs(layer: fx.Node, x: torch.Tensor, weight: torch.Tensor, chance: torch.Generator) -> torch.Tensor | None:
    """What a weight row is multiplied with, at some places of x: (groups, k, places)."""
    k = weight[0].numel()
    if k > LARGEST or x.shape[0] != 1:
        return None
    if layer.target is aten.linear.default:
        return x.reshape(-1, k).T[None]
    if layer.target is not aten.conv2d.default:
        return None
    stride, padding, dilation, groups = _geometry(layer)
    x = F.pad(x, (padding[1], padding[1], padding[0], padding[0]))
    height, width = ((x.shape[2 + i] - dilation[i] * (weight.shape[2 + i] - 1) - 1) // stride[i] + 1 for i in (0, 1))
    places = torch.randint(height * width, (POSITIONS,), generator=chance)
    top, left = places // width * stride[0], places % width * stride[1]
    taps = [
        x[0, :, top + i * dilation[0], left + j * dilation[1]] for i in range(weight.shape[2]) for j in range(weight.shape[3])
    ]
    return torch.stack(taps, 1).reshape(groups, k, -1)


def _geometry(layer: fx.Node) -> tuple[list[int], list[int], list[int], int]:
    """Stride, padding, dilation and groups of a `conv2d` node."""
    stride, padding, dilation, groups = [*layer.args[3:], *([1, 1], [0, 0], [1, 1], 1)[max(0, len(layer.args) - 3) :]]
    return *(list(pair) * (2 // len(pair)) for pair in (stride, padding, dilation)), groups

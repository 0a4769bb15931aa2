"""Take out of each layer the mean error that quantization brought in, by its bias.

Rounding errors of weights do not cancel where few weights meet inputs of one sign, as in a depthwise layer after ReLU: they shift
whole channels, by about as much on every photo. A bias takes that back at no cost.

Source: Nagel et al., Data-Free Quantization Through Weight Equalization and Bias Correction, ICCV 2019, section 4.2 (empirical).
The shrinking is ours.
"""

from collections.abc import Sequence

import torch
from torch import fx

from edgekit.build.graph import attribute
from edgekit.build.integer import DEQUANTIZE_CHANNELS
from edgekit.build.walk import Layers, Walk, go_on, linears

__all__ = ["correct_biases", "correction"]

AT_A_TIME = 16
"""Photos that run side by side; memory grows with it."""

aten = torch.ops.aten


def correct_biases(graph: fx.GraphModule, converted: fx.GraphModule, photos: torch.Tensor) -> int:
    """Add to every bias of `converted` the mean error of its layer against the float `graph`; returns how many changed.

    Layers are corrected in order, so each is judged on inputs that are corrected already.

    Args:
        graph: the float network.
        converted: its converted form; its float biases change in place.
        photos: (n, 3, h, w).
    """
    layers = linears(converted)
    biases = _own_biases(converted, layers)
    groups = max(1, round(len(photos) / AT_A_TIME))
    lacking: list[list[torch.Tensor]] = [[] for _ in layers]
    exact, rounded = Walk(graph), Walk(converted)
    with torch.no_grad():
        for start in range(groups):
            # Every so-manieth photo, since neighbours may be crops of one.
            pairs = [(exact.layers(photo[None]), rounded.layers(photo[None])) for photo in photos[start::groups]]
            outputs = [(next(a)[1], next(b)[1]) for a, b in pairs]
            for index, layer in enumerate(layers):
                lacking[index].append(torch.stack([_channel_means(a - b, layer) for a, b in outputs]))
                shift = 0.0 if biases[index] is None else _along_channels(correction(lacking[index][-1]), layer)
                outputs = _advance(pairs, [(a, b + shift) for a, b in outputs])
        for bias, errors in zip(biases, lacking, strict=True):
            if bias is not None:
                bias.data = bias + correction(torch.cat(errors))
    return sum(bias is not None for bias in biases)


def correction(lacking: torch.Tensor) -> torch.Tensor:
    """(photos, channels), what each photo's mean lacks -> (channels,) to add: the mean, less of it the more the photos scatter.

    The photos at hand are few and of other subjects than those to come. Where they disagree, their mean says more about the
    subjects than about the network; on EfficientNet-Lite0 the plain mean made the outputs worse.
    """
    mean = lacking.mean(0)
    scatter = lacking.var(0, correction=0)
    return mean * mean.square() / (mean.square() + scatter).clamp_min(torch.finfo(mean.dtype).tiny)


def _own_biases(converted: fx.GraphModule, layers: Sequence[fx.Node]) -> list[torch.Tensor | None]:
    """The bias of each layer; None where there is none, or where two layers share it and would correct it twice.

    None for a float layer too: its error is that of its inputs, and all forms of the graph keep its bias.
    """
    found = [attribute(converted, n.args[2].target) if len(n.args) > 2 and n.args[2] is not None else None for n in layers]
    found = [b if n.args[1].target is DEQUANTIZE_CHANNELS else None for b, n in zip(found, layers, strict=True)]
    return [b if b is not None and sum(b is other for other in found) == 1 else None for b in found]


def _channel_means(value: torch.Tensor, layer: fx.Node) -> torch.Tensor:
    axis = -1 if layer.target is aten.linear.default else 1
    return value.movedim(axis, 0).flatten(1).mean(1)


def _along_channels(shift: torch.Tensor, layer: fx.Node) -> torch.Tensor:
    ones = {aten.conv2d.default: 2, aten.conv1d.default: 1}.get(layer.target, 0)
    return shift.view(-1, *(1,) * ones)


def _advance(
    pairs: Sequence[tuple[Layers, Layers]], outputs: Sequence[tuple[torch.Tensor, torch.Tensor]]
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Send each photo its layer's output; the outputs of the next layer, none after the last."""
    steps = [(go_on(exact, a), go_on(rounded, b)) for (exact, rounded), (a, b) in zip(pairs, outputs, strict=True)]
    return [(first[1], second[1]) for first, second in steps if first is not None and second is not None]

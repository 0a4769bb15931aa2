"""Rounding that lets gradients through, in place of observers: what was only watched in calibration is now rounded in training.

`convert_pt2e` takes these modules for observers, so a network that was trained with them is converted like any other.

Sources: Jacob et al., CVPR 2018, section 3 (rounding in training, scales of weights from their range); Bengio et al., arXiv
1308.3432 (straight-through estimator); Esser et al., Learned Step Size Quantization, arXiv 1902.05153 (learned scales). Ours is
that a scale is learned as the logarithm of its ratio to the calibrated one: AdamW then moves all scales alike, however small.
"""

import math
from collections.abc import Iterable

import torch
from torch import Tensor, fx, nn
from torchao.quantization.pt2e.observer import ObserverBase

from edgekit.build.integer import clamp_bounds
from edgekit.build.quantizer import CLAMPS, WEIGHT_SCALE_FLOOR

__all__ = ["ActivationRounding", "WeightRounding", "implied_limit", "replace_observers"]

WEIGHT_STEPS = 127


class ActivationRounding(ObserverBase):
    """One scale and zero point a tensor, int8. The zero point is fixed; so is the scale unless `learned`.

    A learned scale does not grow beyond `limit`, where saturation would no longer do the clamping of the operator in front.
    """

    base: Tensor
    zero_point: Tensor

    def __init__(self, scale: float, zero_point: int, *, learned: bool = False, limit: float = math.inf) -> None:
        """Start from calibrated values."""
        super().__init__(dtype=torch.int8)
        self.quant_min, self.quant_max, self.qscheme = -128, 127, torch.per_tensor_affine
        self.register_buffer("base", torch.tensor([scale]))
        self.register_buffer("zero_point", torch.tensor([zero_point], dtype=torch.int32))
        self.limit = limit  # no buffer: it may be infinite, and who averages weights averages buffers
        self.gain = nn.Parameter(torch.zeros(1)) if learned else None

    @property
    def scale(self) -> Tensor:
        """(1,) float32; beyond the limit gradients pass as if there were none, or it could never come back."""
        if self.gain is None:
            return self.base
        scale = self.base * self.gain.exp()
        return scale - (scale - scale.clamp(max=self.limit)).detach()

    def forward(self, x: Tensor) -> Tensor:
        """Any shape float32 -> the same, on the grid."""
        if self.gain is None:
            return torch.fake_quantize_per_tensor_affine(x, self.base, self.zero_point, self.quant_min, self.quant_max)
        share = (x.numel() * self.quant_max) ** -0.5  # section 2.2 there
        zero = self.zero_point.to(x.dtype)
        return torch._fake_quantize_learnable_per_tensor_affine(x, self.scale, zero, self.quant_min, self.quant_max, share)

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Scale and zero point, one value each."""
        return self.scale.detach().clone(), self.zero_point.clone()


class WeightRounding(ObserverBase):
    """Symmetric int8 with one scale an output channel, from the range that the weights have at the moment."""

    scale: Tensor

    def __init__(self, channels: int) -> None:
        """Scales follow when the first weights come."""
        super().__init__(dtype=torch.int8)
        self.quant_min, self.quant_max, self.qscheme, self.ch_axis = -WEIGHT_STEPS, WEIGHT_STEPS, torch.per_channel_symmetric, 0
        self.register_buffer("scale", torch.full((channels,), WEIGHT_SCALE_FLOOR))
        self.register_buffer("zero_point", torch.zeros(channels, dtype=torch.int32))

    def forward(self, x: Tensor) -> Tensor:
        """(out, ...) float32 -> the same, on the grid."""
        scale = _scale_of(x)
        self.scale.copy_(scale)
        return torch.fake_quantize_per_channel_affine(x, scale, self.zero_point, 0, self.quant_min, self.quant_max)

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """(out,) scales and zero points of the weights that came last."""
        return self.scale.clone(), self.zero_point.long()


def replace_observers(prepared: fx.GraphModule, *, learn_scales: bool) -> fx.GraphModule:
    """Put rounding in the place of every observer of a calibrated graph, in place; observers that are shared stay shared.

    Scales of constants and of the input are never learned: their values lie on the grid.
    """
    modules = dict(prepared.named_modules(remove_duplicate=False))
    readers: dict[ObserverBase, list[fx.Node]] = {}
    for node in prepared.graph.nodes:
        if node.op == "call_module" and isinstance(modules[node.target], ObserverBase):
            readers.setdefault(modules[node.target], []).append(node)
    for observer, nodes in readers.items():
        new = _rounding(observer, [node.args[0] for node in nodes], learn_scales=learn_scales)
        for node in nodes:
            prepared.set_submodule(node.target, new)
    return prepared


def implied_limit(nodes: Iterable[fx.Node], scale: float, zero_point: int) -> float:
    """The largest scale at which saturation still does the clamping of `nodes`; infinite where there is none that does."""
    limit = math.inf
    for node in nodes:
        if node.target not in CLAMPS:
            continue
        low, high = clamp_bounds(node)
        for bound, steps in ((high, 127 - zero_point - 0.5), (-low, zero_point + 128 - 0.5)):
            if steps > 0 and scale <= bound / steps:
                limit = min(limit, bound / steps)
    return limit


def _rounding(observer: ObserverBase, watched: list[fx.Node], *, learn_scales: bool) -> ObserverBase:
    scale, zero_point = observer.calculate_qparams()
    if observer.qscheme == torch.per_channel_symmetric:
        return WeightRounding(len(scale))
    step, zero = float(scale), int(zero_point)
    learned = learn_scales and not any(node.op in ("get_attr", "placeholder") for node in watched)
    return ActivationRounding(step, zero, learned=learned, limit=implied_limit(watched, step, zero) if learned else math.inf)


def _scale_of(weight: Tensor) -> Tensor:
    return (weight.detach().abs().flatten(1).amax(1) / WEIGHT_STEPS).clamp_min(WEIGHT_SCALE_FLOOR)

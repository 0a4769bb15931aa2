"""Convolutions in the forms that networks use, alone and with what follows them."""

from torch import nn
from torch.nn import functional as F

from cases.case import Case, Expected
from cases.parts import Net, conv, norm

__all__ = ["CASES"]


def _one(**options):
    return lambda: Net(lambda net, x: net.conv(x), conv=conv(3, 8, **options))


def _second(outputs=8, kernel=3, **options):
    """Behind a stem, so that the input of the convolution under test is an activation."""
    return lambda: Net(
        lambda net, x: net.conv(F.relu(net.stem(x))), stem=conv(3, 8, stride=2), conv=conv(8, outputs, kernel, **options)
    )


def _followed(activation):
    return lambda: Net(lambda net, x: activation(net.conv(x)), conv=conv(3, 8))


def _clamps():
    """Three bounds that the quantization range implies."""
    return Net(
        lambda net, x: net.last(F.hardtanh(net.second(F.relu6(net.first(x))))).clamp(-0.7, 1.3),
        first=conv(3, 8, stride=2),
        second=conv(8, 8, 1),
        last=conv(8, 8, 1),
    )


def _same_padding():
    """TensorFlow's SAME: stride 2 pads more on the right and at the bottom."""
    return Net(
        lambda net, x: net.conv(F.pad(F.relu6(net.stem(x)), (0, 1, 0, 1))), stem=conv(3, 8), conv=conv(8, 8, padding=0, stride=2)
    )


def _batch_norm():
    return Net(lambda net, x: F.relu(net.norm(net.conv(x))), conv=conv(3, 8, bias=False), norm=norm(8))


def _norm_alone():
    """No convolution in front that could absorb it."""
    return Net(
        lambda net, x: net.last(F.relu(net.norm(F.max_pool2d(net.stem(x), 2)))), stem=conv(3, 8), norm=norm(8), last=conv(8, 8, 1)
    )


def _chain():
    """Errors of one layer meet the next: here a bias that is off by one is seen."""
    layers = nn.Sequential(*[nn.Sequential(conv(8, 8), norm(8), nn.ReLU6()) for _ in range(4)])
    return Net(lambda net, x: net.layers(F.relu6(net.stem(x))), stem=conv(3, 8, stride=2), layers=layers)


BOTH = ("fp32", "fp16")

CASES = (
    Case("conv_3x3", _one(), precisions=BOTH),
    Case("conv_1x1", _second(kernel=1)),
    Case("conv_strided_no_bias", _one(stride=2, bias=False)),
    Case("conv_rectangular", _one(kernel=(3, 5), padding=(1, 2))),
    Case("conv_same_padding", _same_padding),
    Case("conv_grouped", _second(groups=2)),
    Case("conv_depthwise", _second(groups=8), precisions=BOTH),
    Case("conv_depthwise_multiplier", _second(outputs=16, groups=8)),
    Case("conv_dilated", _second(padding=2, dilation=2)),
    Case("conv_batch_norm_relu", _batch_norm, precisions=BOTH),
    Case("norm_alone", _norm_alone),
    Case("conv_clamps", _clamps, precisions=()),
    Case(
        "conv_clamp_min",
        _followed(lambda x: x.clamp(min=0.4)),
        expected={"litert": Expected(kernels=("MAXIMUM", "MINIMUM"), why="the delegate has no integer form of either")},
    ),
    Case("conv_hardswish", _followed(F.hardswish), precisions=BOTH),
    Case("conv_hardsigmoid", _followed(F.hardsigmoid)),
    Case("conv_chain", _chain, precisions=()),
)

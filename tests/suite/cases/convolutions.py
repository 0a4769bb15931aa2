"""Convolutions in the forms that networks use, alone and with what follows them."""

from cases.case import Case
from cases.parts import Net, conv, norm
from torch import nn
from torch.nn import functional as F

__all__ = ["CASES"]


def _one(**options):
    return lambda: Net(lambda net, x: net.conv(x), conv=conv(3, 8, **options))


def _second(inputs=8, outputs=8, kernel=3, **options):
    """Behind a stem, so that the input of the convolution under test is an activation."""
    return lambda: Net(
        lambda net, x: net.conv(F.relu(net.stem(x))), stem=conv(3, inputs, 3, stride=2), conv=conv(inputs, outputs, kernel, **options)
    )


def _followed(activation):
    return lambda: Net(lambda net, x: net.activation(net.conv(x)), conv=conv(3, 8), activation=activation())


def _same_padding():
    """TensorFlow's SAME: stride 2 pads more on the right and at the bottom."""
    return Net(lambda net, x: net.conv(F.pad(F.relu6(net.stem(x)), (0, 1, 0, 1))), stem=conv(3, 8), conv=conv(8, 8, 3, padding=0, stride=2))


def _batch_norm():
    return Net(lambda net, x: F.relu(net.norm(net.conv(x))), conv=conv(3, 8, bias=False), norm=norm(8))


def _chain():
    """Errors of one layer meet the next: the form in which a bias that is off by one is seen."""
    layers = nn.Sequential(*[nn.Sequential(conv(8, 8), norm(8), nn.ReLU6()) for _ in range(4)])
    return Net(lambda net, x: net.layers(F.relu6(net.stem(x))), stem=conv(3, 8, stride=2), layers=layers)


CASES = (
    Case("conv_3x3", _one(kernel=3), precisions=("fp32", "fp16")),
    Case("conv_1x1", _second(kernel=1)),
    Case("conv_strided_no_bias", _one(kernel=3, stride=2, bias=False)),
    Case("conv_rectangular", _one(kernel=(3, 5), padding=(1, 2))),
    Case("conv_same_padding", _same_padding),
    Case("conv_grouped", _second(groups=2)),
    Case("conv_depthwise", _second(groups=8), precisions=("fp32", "fp16")),
    Case("conv_depthwise_multiplier", _second(outputs=16, groups=8)),
    Case("conv_dilated", _second(padding=2, dilation=2)),
    Case("conv_batch_norm_relu", _batch_norm),
    Case("conv_relu6", _followed(nn.ReLU6)),
    Case("conv_hardtanh", _followed(nn.Hardtanh)),
    Case("conv_clamp_inside", lambda: Net(lambda net, x: net.conv(x).clamp(-0.7, 1.3), conv=conv(3, 8))),
    Case("conv_hardswish", _followed(nn.Hardswish), precisions=("fp32", "fp16")),
    Case("conv_hardsigmoid", _followed(nn.Hardsigmoid)),
    Case("conv_chain", _chain),
)

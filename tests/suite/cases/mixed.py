"""Integer networks with a few float layers: these and no others compute on floats, and the edges stay integer."""

import torch
from torch import nn
from torch.nn import functional as F

from cases.case import Case, Expected
from cases.parts import Net, conv

__all__ = ["CASES"]


def _floats(*, convolution=("Conv2d", "CONV_2D", "Conv")):
    """What each engine calls a float layer and the step into it."""
    pte, tflite, onnx = convolution
    return {
        "executorch": Expected(islands=tuple(sorted((pte, "Convert")))),
        "litert": Expected(islands=tuple(sorted((tflite, "DEQUANTIZE")))),
        "onnx": Expected(islands=tuple(sorted((onnx, "DequantizeLinear")))),
    }


def _case(name, make, *layers, expected=None):
    return Case(f"float_{name}", make, precisions=(), float_layers=layers, expected=expected or _floats())


def _three(clamp=F.relu6):
    return lambda: Net(
        lambda net, x: net.third(clamp(net.second(clamp(net.first(x))))),
        first=conv(3, 8, stride=2),
        second=conv(8, 8),
        third=conv(8, 8, 1),
    )


def _depthwise_same_padding():
    """TensorFlow's SAME; the padding belongs to the float layer."""
    return Net(
        lambda net, x: net.last(F.relu6(net.depth(F.pad(F.relu6(net.stem(x)), (0, 1, 0, 1))))),
        stem=conv(3, 8, stride=2),
        depth=conv(8, 8, stride=2, padding=0, groups=8),
        last=conv(8, 8, 1),
    )


def _first_same_padding():
    return Net(
        lambda net, x: net.last(F.relu6(net.stem(F.pad(x, (0, 1, 0, 1))))),
        stem=conv(3, 8, stride=2, padding=0),
        last=conv(8, 8, 1),
    )


def _linear():
    return Net(
        lambda net, x: net.head(torch.flatten(F.adaptive_avg_pool2d(F.relu(net.stem(x)), 1), 1)),
        stem=conv(3, 16, stride=2),
        head=nn.Linear(16, 10),
    )


def _residual():
    def join(net, x):
        x = F.relu(net.stem(x))
        return net.last(x + net.second(F.relu6(net.first(x))))

    return Net(join, stem=conv(3, 8, stride=2), first=conv(8, 8), second=conv(8, 8, 1), last=conv(8, 8, 1))


def _concat():
    """One scale for both branches, so that the clamp behind the float layer is not implied."""

    def join(net, x):
        x = net.stem(x)
        return net.last(torch.cat([F.relu(net.left(x)), net.right(x)], dim=1))

    return Net(join, stem=conv(3, 8, stride=2), left=conv(8, 8, 1), right=conv(8, 8), last=conv(16, 8, 1))


def _squeeze_excite():
    def join(net, x):
        x = F.hardswish(net.stem(x))
        s = F.relu(net.reduce(F.adaptive_avg_pool2d(x, 1)))
        return net.last(x * F.hardsigmoid(net.expand(s)))

    return Net(join, stem=conv(3, 16, stride=2), reduce=conv(16, 4, 1), expand=conv(4, 16, 1), last=conv(16, 8, 1))


_ROW = {**_floats(), "onnx": Expected(islands=("Conv", "DequantizeLinear", "FusedConv"))}

CASES = (
    _case("first", _three(), "conv2d"),
    _case(
        "first_same_padding",
        _first_same_padding,
        "conv2d",
        expected={
            **_floats(),
            "executorch": Expected(islands=("Conv2d", "Convert", "StaticTranspose"), why="the input is transposed as floats"),
        },
    ),
    _case("middle", _three(), "conv2d_1"),
    _case("last", _three(), "conv2d_2"),
    _case("row", _three(), "conv2d", "conv2d_1", expected=_ROW),
    _case(
        "depthwise",
        _depthwise_same_padding,
        "conv2d_1",
        expected=_floats(convolution=("DepthwiseConv2d", "DEPTHWISE_CONV_2D", "Conv")),
    ),
    _case("linear", _linear, "linear", expected=_floats(convolution=("FullyConnected", "FULLY_CONNECTED", "Gemm"))),
    _case("addend", _residual, "conv2d_2"),
    _case("behind_sum", _residual, "conv2d_3"),
    _case("branch", _concat, "conv2d_1"),
    _case("hardswish", _three(F.hardswish), "conv2d_1"),
    _case("squeeze", _squeeze_excite, "conv2d_1"),
    _case("gate", _squeeze_excite, "conv2d_2"),
)

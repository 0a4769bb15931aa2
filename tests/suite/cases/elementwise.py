"""Operators that work element by element, and activations that no convolution can absorb."""

from torch import nn
from torch.nn import functional as F

from cases.case import Case, Expected
from cases.parts import Net, conv, louder

__all__ = ["CASES"]


def _two(join, *, gain=1.0):
    """Two branches of different range and what joins them."""
    return lambda: Net(
        lambda net, x: join(net.left(net.stem(x)), net.right(net.stem(x))),
        stem=conv(3, 8, stride=2),
        left=conv(8, 8, 1),
        right=louder(conv(8, 8), gain),
    )


def _one(function):
    return lambda: Net(lambda net, x: function(net.stem(x)), stem=conv(3, 8))


def _after_pool(activation):
    """Its input comes from a pooling."""
    return _between(lambda x: activation(F.max_pool2d(x, 2)))


def _between(function):
    """Between two convolutions, whose integers must not suffer from a float operator in their midst."""
    return lambda: Net(lambda net, x: net.last(function(net.stem(x))), stem=conv(3, 8), last=conv(8, 8, 1))


def _two_readers(activation):
    """The convolution is read by the activation and by the addition, so its weights must not be rescaled."""
    return _one(lambda u: u + activation(u))


def _written_out(x):
    """Hard-swish as older networks spell it."""
    return x * F.relu6(x + 3) / 6


CASES = (
    Case("add_different_scales", _two(lambda a, b: a + b, gain=8.0)),
    Case("add_scalar_and_itself", _one(lambda x: (y := x + 0.5) + y)),
    Case("mul", _two(lambda a, b: a * b)),
    Case(
        "sub",
        _two(lambda a, b: a - b),
        expected={"onnx": Expected(islands=("DequantizeLinear", "Sub"), why="ONNX Runtime has no integer subtraction")},
    ),
    Case("hardswish_after_pool", _after_pool(F.hardswish)),
    Case("hardsigmoid_after_pool", _after_pool(F.hardsigmoid), precisions=()),
    Case("relu_after_pool", _after_pool(F.relu), precisions=()),
    Case("hardswish_two_readers", _two_readers(F.hardswish), precisions=()),
    Case(
        "relu_two_readers",
        _two_readers(F.relu),
        expected={"litert": Expected(kernels=("RELU",), why="the delegate has no integer ReLU of its own")},
    ),
    Case("hardswish_written_out", _one(_written_out)),
    Case(
        "sigmoid",
        _between(F.sigmoid),
        precisions=(),
        expected={"executorch": Expected(islands=("Convert", "Sigmoid"), why="its quantized patterns lack sigmoid")},
    ),
    Case(
        "silu",
        _between(F.silu),
        expected={
            "executorch": Expected(islands=("Convert", "Multiply", "Sigmoid")),
            "litert": Expected(islands=("DEQUANTIZE", "LOGISTIC", "MUL")),
            "onnx": Expected(islands=("DequantizeLinear", "Mul", "Sigmoid")),
        },
    ),
    Case(
        "gelu",
        _between(F.gelu),
        expected={
            "executorch": Expected(islands=("Convert", "Gelu")),
            "litert": Expected(kernels=("GELU",), why="integer, but not in the delegate"),
            "onnx": Expected(islands=("DequantizeLinear", "Gelu")),
        },
    ),
    Case(
        "leaky_relu",
        _between(lambda x: F.leaky_relu(x, 0.1)),
        precisions=(),
        expected={"executorch": Expected(islands=("Convert", "LeakyReLU"))},
    ),
    Case(
        "prelu",
        lambda: Net(lambda net, x: net.act(net.stem(x)), stem=conv(3, 8), act=nn.PReLU(8)),
        precisions=(),
        expected={
            "executorch": Expected(islands=("Convert", "PReLU")),
            "litert": Expected(islands=("DEQUANTIZE", "MUL", "RELU", "SUB")),
            "onnx": Expected(islands=("DequantizeLinear", "PRelu")),
        },
    ),
)

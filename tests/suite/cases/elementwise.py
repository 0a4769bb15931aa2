"""Operators that work element by element, and activations that no convolution can absorb."""

from cases.case import Case, Expected
from cases.parts import Net, conv, louder
from torch import nn
from torch.nn import functional as F

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
    Case("add_relu", _two(lambda a, b: F.relu(a + b))),
    Case("add_to_itself", _one(lambda x: x + x)),
    Case("add_scalar", _one(lambda x: x + 0.5)),
    Case("mul", _two(lambda a, b: a * b)),
    Case(
        "sub",
        _two(lambda a, b: a - b),
        expected={"onnx": Expected(islands=("DequantizeLinear", "Sub"), why="ONNX Runtime has no integer subtraction")},
    ),
    Case("hardswish_after_pool", _after_pool(F.hardswish)),
    Case("hardsigmoid_after_pool", _after_pool(F.hardsigmoid)),
    Case("relu_after_pool", _after_pool(F.relu)),
    Case("hardswish_two_readers", _two_readers(F.hardswish)),
    Case("relu_two_readers", _two_readers(F.relu)),
    Case("hardswish_written_out", _one(_written_out)),
    Case("sigmoid", _between(F.sigmoid)),
    Case("silu", _between(F.silu)),
    Case("gelu", _between(F.gelu)),
    Case("leaky_relu", _between(lambda x: F.leaky_relu(x, 0.1)), max_steps=2),
    Case("prelu", lambda: Net(lambda net, x: net.act(net.stem(x)), stem=conv(3, 8), act=nn.PReLU(8))),
)

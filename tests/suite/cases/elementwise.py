"""Operators that work element by element, and activations away from a convolution."""

import torch
from cases.case import Case
from cases.parts import Net, conv
from torch import nn
from torch.nn import functional as F

__all__ = ["CASES"]


def _residual(net, x):
    x = F.relu(net.stem(x))
    return x + net.body(x) * 1.0


def _two(join, *, gain=1.0):
    """Two branches of different range and what joins them."""

    def make():
        right = conv(8, 8)
        with torch.no_grad():
            right.weight.mul_(gain)
        return Net(
            lambda net, x: join(net.left(net.stem(x)), net.right(net.stem(x))), stem=conv(3, 8, stride=2), left=conv(8, 8, 1), right=right
        )

    return make


def _after_pool(activation):
    """The activation's input comes from a pooling, so no convolution can absorb it."""
    return lambda: Net(
        lambda net, x: net.last(net.activation(F.max_pool2d(net.stem(x), 2))), stem=conv(3, 8), activation=activation(), last=conv(8, 8, 1)
    )


def _two_readers():
    """The convolution is read by the activation and by the addition: its weights must not be rescaled."""

    def join(net, x):
        u = net.stem(x)
        return u + F.hardswish(u)

    return Net(join, stem=conv(3, 8))


def _island(activation):
    return lambda: Net(lambda net, x: net.last(net.activation(net.stem(x))), stem=conv(3, 8), activation=activation(), last=conv(8, 8, 1))


CASES = (
    Case("add_different_scales", _two(lambda a, b: a + b, gain=8.0)),
    Case("add_relu", _two(lambda a, b: F.relu(a + b))),
    Case("add_to_itself", lambda: Net(lambda net, x: (lambda y: y + y)(net.stem(x)), stem=conv(3, 8))),
    Case("add_scalar", lambda: Net(lambda net, x: net.stem(x) + 0.5, stem=conv(3, 8))),
    Case("mul", _two(lambda a, b: a * b)),
    Case("sub", _two(lambda a, b: a - b)),
    Case("hardswish_after_pool", _after_pool(nn.Hardswish)),
    Case("hardsigmoid_after_pool", _after_pool(nn.Hardsigmoid)),
    Case("relu_after_pool", _after_pool(nn.ReLU)),
    Case("hardswish_two_readers", _two_readers),
    Case("silu", _island(nn.SiLU)),
    Case("sigmoid", _island(nn.Sigmoid)),
    Case("gelu", _island(nn.GELU)),
    Case("leaky_relu", _island(lambda: nn.LeakyReLU(0.1))),
    Case("prelu", _island(lambda: nn.PReLU(8))),
)

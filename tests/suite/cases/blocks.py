"""Blocks that networks repeat."""

import torch
from torch import nn
from torch.nn import functional as F

from cases.case import Case, Expected
from cases.parts import Net, conv, norm

__all__ = ["CASES"]


def _squeeze_excite(gate):
    def join(net, x):
        x = F.hardswish(net.norm(net.stem(x)))
        s = F.relu(net.reduce(F.adaptive_avg_pool2d(x, 1)))
        return net.last(x * gate(net.expand(s)))

    return lambda: Net(
        join,
        stem=conv(3, 16, stride=2, bias=False),
        norm=norm(16),
        reduce=conv(16, 4, 1),
        expand=conv(4, 16, 1),
        last=conv(16, 8, 1),
    )


def _layer(inputs, outputs, kernel=3, *, act=None, **options):
    parts = [conv(inputs, outputs, kernel, bias=False, **options), norm(outputs)]
    return nn.Sequential(*parts, *([] if act is None else [act()]))


def _inverted_residual():
    def block():
        wide = _layer(32, 32, groups=32, act=nn.ReLU6)
        return nn.Sequential(_layer(8, 32, 1, act=nn.ReLU6), wide, _layer(32, 8, 1))

    def join(net, x):
        x = net.stem(x)
        x = x + net.first(x)
        return x + net.second(x)

    return Net(join, stem=conv(3, 8, stride=2), first=block(), second=block())


def _bottleneck():
    def join(net, x):
        x = F.max_pool2d(net.stem(x), 3, 2, 1)
        return F.relu(net.body(x) + net.short(x))

    body = nn.Sequential(_layer(8, 4, 1, act=nn.ReLU), _layer(4, 4, stride=2, act=nn.ReLU), _layer(4, 16, 1))
    return Net(join, stem=_layer(3, 8, act=nn.ReLU), body=body, short=_layer(8, 16, 1, stride=2))


def _classifier():
    """A whole small network with a head, as a payload has it."""

    def join(net, x):
        x = net.point(net.depth(net.stem(x)))
        x = torch.flatten(F.adaptive_avg_pool2d(x, 1), 1)
        return net.head(F.dropout(F.hardswish(net.hidden(x)), 0.2, training=False))

    return Net(
        join,
        stem=_layer(3, 16, stride=2, act=nn.Hardswish),
        depth=_layer(16, 16, groups=16, act=nn.ReLU6),
        point=_layer(16, 32, 1, act=nn.Hardswish),
        hidden=nn.Linear(32, 32),
        head=nn.Linear(32, 10),
    )


CASES = (
    Case("squeeze_excite", _squeeze_excite(F.hardsigmoid), precisions=("fp32", "fp16")),
    Case(
        "squeeze_excite_sigmoid",
        _squeeze_excite(torch.sigmoid),
        precisions=(),
        expected={"executorch": Expected(islands=("Convert", "Sigmoid"), why="its quantized patterns lack sigmoid")},
    ),
    Case("inverted_residual", _inverted_residual, precisions=()),
    Case("bottleneck", _bottleneck, precisions=()),
    Case("classifier", _classifier, precisions=("fp32", "fp16")),
)

"""Blocks that networks repeat."""

import torch
from cases.case import Case
from cases.parts import Net, conv, norm
from torch import nn
from torch.nn import functional as F

__all__ = ["CASES"]


def _squeeze_excite(gate):
    def join(net, x):
        x = F.hardswish(net.norm(net.stem(x)))
        s = F.relu(net.reduce(F.adaptive_avg_pool2d(x, 1)))
        return net.last(x * gate(net.expand(s)))

    return lambda: Net(join, stem=conv(3, 16, stride=2, bias=False), norm=norm(16), reduce=conv(16, 4, 1), expand=conv(4, 16, 1), last=conv(16, 8, 1))


def _inverted_residual():
    def block():
        return nn.Sequential(
            conv(8, 32, 1, bias=False), norm(32), nn.ReLU6(),
            conv(32, 32, 3, groups=32, bias=False), norm(32), nn.ReLU6(),
            conv(32, 8, 1, bias=False), norm(8),
        )

    def join(net, x):
        x = net.stem(x)
        x = x + net.first(x)
        return x + net.second(x)

    return Net(join, stem=conv(3, 8, stride=2), first=block(), second=block())


def _bottleneck():
    def join(net, x):
        x = F.max_pool2d(F.relu(net.norm(net.stem(x))), 3, 2, 1)
        return F.relu(net.body(x) + net.short(x))

    body = nn.Sequential(
        conv(8, 4, 1, bias=False), norm(4), nn.ReLU(),
        conv(4, 4, 3, stride=2, bias=False), norm(4), nn.ReLU(),
        conv(4, 16, 1, bias=False), norm(16),
    )
    short = nn.Sequential(conv(8, 16, 1, stride=2, bias=False), norm(16))
    return Net(join, stem=conv(3, 8, bias=False), norm=norm(8), body=body, short=short)


def _classifier():
    """A whole small network with a head, as a payload has it."""
    def join(net, x):
        x = F.hardswish(net.norm(net.stem(x)))
        x = F.relu6(net.depth(x))
        x = F.adaptive_avg_pool2d(F.hardswish(net.point(x)), 1)
        return net.head(F.dropout(F.hardswish(net.hidden(torch.flatten(x, 1))), 0.2, training=False))

    return Net(join, stem=conv(3, 16, stride=2, bias=False), norm=norm(16), depth=conv(16, 16, groups=16), point=conv(16, 32, 1),
               hidden=nn.Linear(32, 32), head=nn.Linear(32, 10))


CASES = (
    Case("squeeze_excite", _squeeze_excite(F.hardsigmoid), precisions=("fp32", "fp16")),
    Case("squeeze_excite_sigmoid", _squeeze_excite(torch.sigmoid)),
    Case("inverted_residual", _inverted_residual),
    Case("bottleneck", _bottleneck),
    Case("classifier", _classifier, precisions=("fp32", "fp16")),
)

"""Pooling and heads."""

import torch
from torch import nn
from torch.nn import functional as F

from cases.case import Case
from cases.parts import Net, conv

__all__ = ["CASES"]


def _pooled(pool):
    return lambda: Net(lambda net, x: pool(F.relu(net.stem(x))), stem=conv(3, 8))


def _headed(pool):
    return lambda: Net(
        lambda net, x: net.head(torch.flatten(pool(F.relu6(net.stem(x))), 1)), stem=conv(3, 16), head=nn.Linear(16, 10)
    )


def _linear():
    return Net(
        lambda net, x: net.head(F.relu(net.hidden(torch.flatten(F.relu(net.stem(x)), 1)))),
        stem=conv(3, 8, stride=4),
        hidden=nn.Linear(128, 16),
        head=nn.Linear(16, 10),
    )


CASES = (
    Case("max_pool_padded", _pooled(lambda x: F.max_pool2d(x, 3, 2, 1))),
    Case("avg_pool", _pooled(lambda x: F.avg_pool2d(F.avg_pool2d(x, 3, 1, 1), 2))),
    Case("adaptive_avg_pool", _headed(lambda x: F.adaptive_avg_pool2d(x, 1)), precisions=("fp32", "fp16")),
    Case("mean", _headed(lambda x: x.mean((2, 3)))),
    Case("flatten_linear", _linear),
)

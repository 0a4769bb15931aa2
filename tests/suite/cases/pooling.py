"""Pooling, reductions and what moves data without changing it."""

import torch
from cases.case import Case
from cases.parts import Net, conv
from torch import nn
from torch.nn import functional as F

__all__ = ["CASES"]


def _moved(move, *, channels=8, size_last=None):
    """Stem, the operator under test, and a convolution behind it where the channels allow it."""
    return lambda: Net(lambda net, x: move(F.relu(net.stem(x))), stem=conv(3, channels))


def _headed(pool):
    return lambda: Net(
        lambda net, x: net.head(torch.flatten(pool(F.relu6(net.stem(x))), 1)), stem=conv(3, 16), head=nn.Linear(16, 10)
    )


def _shuffle(x):
    n, c, h, w = x.shape
    return x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


def _shuffled():
    return Net(lambda net, x: net.last(_shuffle(F.relu(net.stem(x)))), stem=conv(3, 8), last=conv(8, 8, groups=8))


def _chunked():
    def join(net, x):
        a, b = F.relu(net.stem(x)).chunk(2, dim=1)
        return torch.cat([a, net.body(b)], dim=1)

    return Net(join, stem=conv(3, 8), body=conv(4, 4))


def _split():
    def join(net, x):
        a, b = torch.split(F.relu(net.stem(x)), [2, 6], dim=1)
        return torch.cat([net.body(b), a], dim=1)

    return Net(join, stem=conv(3, 8), body=conv(6, 6))


def _concat():
    def join(net, x):
        x = F.relu(net.stem(x))
        return net.last(torch.cat([net.left(x), 6 * 0 + net.right(x), F.max_pool2d(x, 3, 1, 1)], dim=1))

    right = conv(8, 8)
    with torch.no_grad():
        right.weight.mul_(8.0)
    return Net(join, stem=conv(3, 8, stride=2), left=conv(8, 8, 1), right=right, last=conv(24, 8, 1))


CASES = (
    Case("max_pool", _moved(lambda x: F.max_pool2d(x, 3, 2, 1))),
    Case("avg_pool", _moved(lambda x: F.avg_pool2d(x, 2))),
    Case("avg_pool_padded", _moved(lambda x: F.avg_pool2d(x, 3, 1, 1))),
    Case("adaptive_avg_pool", _headed(lambda x: F.adaptive_avg_pool2d(x, 1)), precisions=("fp32", "fp16")),
    Case("mean_keepdim", _headed(lambda x: x.mean((2, 3), keepdim=True))),
    Case("mean", _headed(lambda x: x.mean((2, 3)))),
    Case("flatten_linear", lambda: Net(lambda net, x: net.head(torch.flatten(F.relu(net.stem(x)), 1)), stem=conv(3, 8, stride=4), head=nn.Linear(128, 10))),
    Case("linear_relu_linear", lambda: Net(lambda net, x: net.head(F.relu(net.hidden(torch.flatten(F.adaptive_avg_pool2d(net.stem(x), 1), 1)))), stem=conv(3, 16), hidden=nn.Linear(16, 16), head=nn.Linear(16, 10))),
    Case("pad", _moved(lambda x: F.pad(x, (1, 2, 0, 1)))),
    Case("channel_shuffle", _shuffled),
    Case("chunk_concat", _chunked),
    Case("split_concat", _split),
    Case("concat_different_ranges", _concat),
    Case("dropout", _headed(lambda x: F.dropout(F.adaptive_avg_pool2d(x, 1), 0.2, training=False))),
    Case("upsample_nearest", _moved(lambda x: F.interpolate(x, scale_factor=2.0, mode="nearest"))),
    Case("upsample_bilinear", _moved(lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"))),
)

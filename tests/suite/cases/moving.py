"""What moves data without changing it."""

import torch
from torch.nn import functional as F

from cases.case import Case, Expected
from cases.parts import Net, conv, louder

__all__ = ["CASES"]


def _moved(move):
    return lambda: Net(lambda net, x: move(F.relu(net.stem(x))), stem=conv(3, 8))


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


def _concat():
    """One scale for three branches: the loud one costs the others resolution, and the ReLU in front is no longer implied."""

    def join(net, x):
        x = F.relu(net.stem(x))
        return net.last(torch.cat([net.left(x), net.right(x), F.max_pool2d(x, 3, 1, 1)], dim=1))

    return Net(join, stem=conv(3, 8, stride=2), left=conv(8, 8, 1), right=louder(conv(8, 8), 8.0), last=conv(24, 8, 1))


def _relu_after_concat():
    return Net(
        lambda net, x: net.last(F.relu(torch.cat([net.left(x), net.right(x)], dim=1))),
        left=conv(3, 8, 1),
        right=conv(3, 8),
        last=conv(16, 8, 1),
    )


def _dense():
    """Concatenations of concatenations share one scale throughout."""

    def join(net, x):
        x = net.stem(x)
        x = torch.cat([x, F.relu(net.first(x))], dim=1)
        return net.last(torch.cat([x, F.hardsigmoid(net.second(x))], dim=1))

    return Net(join, stem=conv(3, 4, stride=2), first=conv(4, 4), second=conv(8, 4), last=conv(12, 8, 1))


CASES = (
    Case(
        "pad",
        _moved(lambda x: F.pad(x, (1, 2, 0, 1))),
        expected={"executorch": Expected(islands=("Convert", "StaticConstantPad"), why="XNNPACK pads integers in layers only")},
    ),
    Case(
        "channel_shuffle",
        _shuffled,
        expected={"executorch": Expected(islands=("Convert", "StaticReshape"), why="a reshape behind a copy has no scales")},
    ),
    Case("chunk_concat", _chunked),
    Case("concat_different_ranges", _concat, min_snr_db=15.0),
    Case(
        "concat_of_concat",
        _dense,
        expected={"litert": Expected(kernels=("MINIMUM",), why="hard-sigmoid of a shared scale needs its upper bound")},
    ),
    Case(
        "relu_after_concat",
        _relu_after_concat,
        expected={"litert": Expected(kernels=("RELU",), why="the delegate has no integer ReLU of its own")},
    ),
    Case(
        "upsample_nearest",
        _moved(lambda x: F.interpolate(x, scale_factor=2.0, mode="nearest")),
        precisions=(),
        expected={
            "executorch": Expected(("Convert",), ("aten::upsample_nearest2d",), calls=2, why="XNNPACK resizes bilinearly only"),
            "litert": Expected(kernels=("RESIZE_NEAREST_NEIGHBOR",)),
        },
    ),
    Case(
        "upsample_bilinear",
        _moved(lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear")),
        precisions=(),
        expected={
            "executorch": Expected(islands=("Convert", "StaticResizeBilinear2D")),
            "litert": Expected(wrong=True, why="its integer kernel is off by up to 22 steps"),
            "onnx": Expected(islands=("DequantizeLinear", "Resize")),
        },
    ),
)

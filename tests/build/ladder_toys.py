"""A small residual network with two exits, quantized once."""

import functools

import torch
from torch import nn

from edgekit.build.ladder.staged import ExitHead, Staged
from edgekit.build.quantize import quantize
from edgekit.build.recipe import Recipe

__all__ = ["CLASSES", "PLACES", "RUNGS", "SIZE_PX", "Residual", "images", "program_of", "quantized", "staged"]

PLACES = ("blocks.1", "blocks.3")
RUNGS = ("exit0", "exit1", "last")
CLASSES, SIZE_PX = 7, 32


class Block(nn.Module):
    """Expand, depthwise, project; the input is added where the shape stays."""

    def __init__(self, inputs, outputs, *, stride=1):
        super().__init__()
        wide = 4 * inputs
        self.expand = nn.Sequential(nn.Conv2d(inputs, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6())
        depthwise = nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False)
        self.depth = nn.Sequential(depthwise, nn.BatchNorm2d(wide), nn.ReLU6())
        self.project = nn.Sequential(nn.Conv2d(wide, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x):
        y = self.project(self.depth(self.expand(x)))
        return x + y if self.adds else y


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6())
        self.blocks = nn.Sequential(Block(8, 8), Block(8, 16, stride=2), Block(16, 16), Block(16, 24), Block(24, 24))
        self.head = nn.Sequential(nn.Conv2d(24, 48, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, CLASSES))

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)))


def staged(*, seed=0):
    """Random weights; norms with the statistics of some images, so that answers differ from image to image."""
    torch.manual_seed(seed)
    network = Staged(Residual(), {"blocks.1": ExitHead(16, CLASSES, hidden=8), "blocks.3": ExitHead(24, CLASSES, hidden=8)})
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = None
            layer.weight.data.uniform_(0.5, 1.5)
            layer.bias.data.normal_(0, 0.3)
    with torch.no_grad():
        network.train()(images(32, seed=3))
    return network.eval()


def images(count, *, size_px=SIZE_PX, seed=1):
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randn(count, 3, 4, 4, generator=generator)
    smooth = nn.functional.interpolate(coarse, size=size_px, mode="bicubic")
    return smooth + 0.3 * torch.randn(count, 3, size_px, size_px, generator=generator)


def program_of(module, *, size_px=SIZE_PX):
    return torch.export.export(module, (torch.zeros(1, 3, size_px, size_px),), strict=False)


@functools.cache
def quantized(*, recipe=Recipe(), size_px=SIZE_PX):  # noqa: B008 - frozen
    """The staged network on 16 images."""
    return quantize(program_of(staged(), size_px=size_px), images(16, size_px=size_px).split(4), recipe=recipe)

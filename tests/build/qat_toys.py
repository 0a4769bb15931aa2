"""Networks that INT8 breaks, and lessons that mend them."""

import torch
from torch import nn
from training_toys import FACTS, SIDE, plan

from edgekit.build.tensors import batches
from edgekit.build.training.trainer import train


class Squeeze(nn.Module):
    """Squeeze and excite."""

    def __init__(self, width):
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.less, self.more = nn.Conv2d(width, 4, 1), nn.Conv2d(4, width, 1)

    def forward(self, x):
        return x * nn.functional.hardsigmoid(self.more(nn.functional.relu(self.less(self.pool(x)))))


def modern():
    """Hard-swish, squeeze and excite, a sum."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish(inplace=True))
            self.depth = nn.Sequential(nn.Conv2d(8, 8, 3, 1, 1, groups=8, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
            self.squeeze = Squeeze(8)
            self.point = nn.Conv2d(8, 8, 1)
            self.head = nn.Linear(8, 3)

        def forward(self, x):
            x = self.stem(x)
            x = x + self.point(self.squeeze(self.depth(x)))
            return self.head(x.mean((2, 3)))

    torch.manual_seed(0)
    return Net()


class Fixed(nn.Module):
    """Takes one photo only."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.head = nn.Conv2d(3, 8, 3, 4), nn.Linear(8 * 64, 3)

    def forward(self, x):
        return self.head(self.conv(x).relu().reshape(1, 512))


def relu6():
    """Two layers with bounded activations, whose channels equalisation must leave alone."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU6(),
        nn.Conv2d(8, 16, 3, 2, 1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU6(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 3),
    )


def fitted(module, lesson):
    """The network after a short training."""
    train(module, lesson, plan(epochs=6))
    return module.eval()


def narrowed(module, factor=1 / 400):
    """The same answers from channels that are narrower than half a step of their tensor, beside one that tells nothing.

    The wide channel is always at the bound of its activation, so that no layer can be scaled; no weight reads it.
    """
    norm, reader = module[1], module[3]
    with torch.no_grad():
        norm.weight[1:] *= factor
        norm.bias[1:] *= factor
        reader.weight[:, 1:] /= factor
        norm.weight[0], norm.bias[0] = 0, 6
        reader.weight[:, 0] = 0
    return module


def exported(module):
    return torch.export.export(module.eval(), (torch.zeros(1, 3, SIDE, SIDE),), strict=False)


def calibration(data, n=12):
    return list(batches(data.take(n), FACTS))


def pictures(data):
    """(n, 3, 32, 32) of all photos."""
    return torch.cat(calibration(data, len(data)))


def top1(logits, data):
    return float((logits.argmax(1) == torch.tensor(data.labels)).double().mean())

"""A toy problem for the tests of training: coloured squares on grey noise, and networks that learn it in a second."""

from dataclasses import replace

import numpy as np
import torch
from PIL import Image
from torch import nn

from edgekit.build.data import open_data
from edgekit.build.facts import Facts
from edgekit.build.training.lesson import Lesson
from edgekit.build.training.plan import Training

SIDE = 32
COLOURS = {"blue": (30, 60, 220), "green": (40, 200, 60), "red": (220, 40, 40)}
FACTS = Facts(
    name="tiny",
    task="image-classification",
    classes=3,
    resolution_px=SIDE,
    resize_px=SIDE,
    filter="bilinear",
    mean=(127.0, 127.0, 127.0),
    std=(64.0, 64.0, 64.0),
    labels=None,
    weights="random",
    weights_sha256="",
    license="",
)
TRAINING = Training(
    epochs=3, batch_size=12, micro_batch=12, learning_rate=1e-2, weight_decay=0.02, patience=0, seed=3, augment=False
)

FACTORY = """
from torch import nn

def tiny(classes=3):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(16, classes),
    )

def fixed():
    return tiny(3)

def greedy(classes=3):
    return nn.Sequential(nn.Conv2d(3, 2 * classes, 3, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * classes, classes))

def convolving(classes=3):
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, classes, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
"""


def draw_photos(folder, *, each=20, colours=COLOURS, seed=0):
    """Write `each` PNG files for every colour, in a folder of its name; without colours' names if `colours` has one entry ''."""
    rng = np.random.default_rng(seed)
    for name, colour in colours.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for i in range(each):
            pixels = rng.integers(90, 160, (40, 40, 3)).astype(np.uint8)
            top, left = rng.integers(8, 16, 2)
            pixels[top : top + 16, left : left + 16] = colour
            Image.fromarray(pixels).save(folder / name / f"{i:02}.png")
    return folder


def lesson_in(folder, *, each=20, **options):
    """A lesson of coloured squares below `folder`."""
    fit = open_data(draw_photos(folder / "fit", each=each))
    tune = open_data(draw_photos(folder / "tune", each=6, seed=1))
    return Lesson(fit, tune, FACTS, **options)


def tiny(seed=0, *, width=8, classes=3, dropout=0.2):
    """A network with batch norms and dropout: both remember, and must be taken up after an interrupt."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, width, 3, 2, 1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, 2, 1, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(2 * width, classes),
    )


def plain(seed=0):
    """A network whose photos do not touch each other."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, 8, 3, 4), nn.Tanh(), nn.Flatten(), nn.Linear(8 * 64, 3))


def plan(**changes):
    """The usual training with changes."""
    return replace(TRAINING, **changes)


def equal(a, b):
    """Whether two networks have the same weights, bit for bit."""
    one, two = a.state_dict(), b.state_dict()
    return one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)

"""Photos and networks so small that a whole training takes seconds."""

import dataclasses

import numpy as np
from PIL import Image

from edgekit import catalog
from edgekit.build.compression import Compression
from edgekit.build.request import BuildRequest

COLOURS = {"red": (200, 60, 60), "green": (60, 200, 60), "blue": (60, 60, 200)}

NETWORK = """
from torch import nn

SPECS = {{"tiny": {{"task": "image-classification", "classes": 3, "resolution_px": 32, "mean": (127.0, 127.0, 127.0),
                  "std": (64.0, 64.0, 64.0), "crop_fraction": 1.0}}}}


def block(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU())


class Tiny(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(block(3, 16), block(16, {width}), block({width}, 32))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(32, classes)

    def forward(self, x):
        {forward}


def make(classes=3):
    return Tiny(classes)
"""
PLAIN_FORWARD = "return self.fc(self.pool(self.body(x)).flatten(1))"


def photos(folder, *, each, classes=tuple(COLOURS), seed=0, side=40):
    """One folder a class of noisy coloured squares; `classes` may be empty for photos without labels."""
    rng = np.random.default_rng(seed)
    for name in classes or ("",):
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        for i in range(each):
            colour = COLOURS.get(name, (128, 128, 128))
            pixels = np.clip(rng.normal(0, 50, (side, side, 3)) + colour, 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(place / f"{i}.png")
    return folder


def network(folder, *, width=32, forward=PLAIN_FORWARD):
    """A file of a network: what `--model FILE:make` takes."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tiny.py"
    path.write_text(NETWORK.format(width=width, forward=forward))
    return f"{path}:make"


def request(tmp_path, model, data, **wish):
    """A build of that model on that data for this machine."""
    fields = {f.name for f in dataclasses.fields(BuildRequest)}
    own = {name: wish.pop(name) for name in list(wish) if name in fields}
    return BuildRequest(
        model=catalog.find_model(model),
        target=catalog.find_target("host"),
        out=tmp_path / "out",
        data_dir=data,
        store=tmp_path / "store",
        **{"engines": ("onnx",), **own},
        compression=Compression(**{"device": "cpu", "batch_size": 16, **wish}),
    )

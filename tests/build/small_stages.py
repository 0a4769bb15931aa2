"""Checkpoints and photos in a temporary folder, and stages run over them."""

import numpy as np
from PIL import Image

from edgekit import catalog
from edgekit.build import pipeline
from edgekit.build.artifact import Artifact
from edgekit.build.facts import facts_of
from edgekit.build.network import Network
from edgekit.build.origin import network_of
from edgekit.build.splits import choose_splits
from edgekit.build.stages.load import Load
from edgekit.build.store import Store
from edgekit.spec.digest import sha256_bytes

SOURCE = Artifact("source", sha256_bytes(b"test"), None)

TINY = """
from torch import nn

def make(classes=2):
    def block(i, o, stride):
        return [nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU()]
    layers = block(3, 16, 2) + block(16, 32, 2) + block(32, 48, 1)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, classes))
"""
"""A network that is trained in a second."""


def tiny(folder, *, resolution_px=32):
    """-> (network, facts) of a small file of one's own."""
    path = folder / "tiny.py"
    path.write_text(TINY)
    return network_of(catalog.find_model(f"{path}:make"), weights=None, classes=2, seed=0, resolution_px=resolution_px)


def named(name, *, classes, resolution_px):
    """-> (network, facts) of a network of the catalog with random weights."""
    source = catalog.find_model(name)
    network, _ = network_of(source, weights=None, classes=None, seed=0, resolution_px=resolution_px)
    network = Network(network.kind, network.factory, network.file, None, classes, 0)
    return network, facts_of(source, resolution_px=resolution_px, weights="random", weights_sha256="").with_classes(classes)


def photos(folder, *, count=24, classes=("dark", "light"), labelled=True):
    """-> splits of small made-up photos that a network can learn to tell apart."""
    rng = np.random.default_rng(0)
    for index, name in enumerate(classes):
        place = folder / name if labelled else folder
        place.mkdir(parents=True, exist_ok=True)
        for i in range(count):
            pixels = np.clip(rng.normal(60 + 130 * index, 50, (40, 40, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(place / f"{name}{i}.png")
    return choose_splits(folder, seed=0, trains=True)[0]


def run(folder, *stages, source=SOURCE):
    """-> the last artifact."""
    return pipeline.run(stages, source, store=Store(folder / "store"))[0]


__all__ = ["Load", "named", "photos", "run", "tiny"]

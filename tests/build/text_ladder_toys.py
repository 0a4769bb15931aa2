"""A small network that reads text, with two exits, and payloads of it: uncut and in segments."""

import dataclasses
import functools

import numpy as np
import torch
from text_toys import BERT, text

from edgekit.build.stages.lower_text import lowering
from edgekit.build.text.exits import new_text_exits
from edgekit.build.text.integers import snap
from edgekit.build.text.network import TextNetwork
from edgekit.build.text.segments import segmented
from edgekit.runtime import engines
from edgekit.spec.manifest import Entry

__all__ = ["CLASSES", "ENGINES", "FAMILIES", "RUNGS", "TOKENS", "TextFiles", "chain", "cut", "staged_network", "worst"]

ENGINES = ("executorch", "litert", "onnx")
RUNGS = ("exit1", "exit2", "last")
TOKENS = (8, 16)
CLASSES = 5
MEAN = dataclasses.replace(BERT, layers=3)
FAMILIES = {
    "mean": MEAN,
    "two layers": dataclasses.replace(MEAN, layers=2),
    "first token": dataclasses.replace(MEAN, pooling="cls", pooler="tanh"),
    "mobilebert": dataclasses.replace(
        MEAN, family="mobilebert", embedding=32, bottleneck=32, intermediate=64, feed_forwards=2, no_norm=True, activation="relu"
    ),
}


def staged_network(family="mean"):
    """-> network and heads, the same random ones each time."""
    torch.manual_seed(0)
    network = TextNetwork(FAMILIES[family], CLASSES).eval()
    heads = new_text_exits(network, (), seed=0)
    with torch.no_grad():
        for module in (network, *heads.values()):
            for parameter in module.parameters():
                parameter += 0.1 * torch.randn_like(parameter)
    return network, heads


@functools.cache
def cut(family="mean"):
    """-> the folded network and its heads, rounded, and the grids."""
    folded = segmented(*staged_network(family))
    return folded, snap(folded)


class TextFiles:
    """Payloads of one engine: the network uncut, and its segments."""

    def __init__(self, engine, folder, *, family="mean", tokens=TOKENS):
        folded, self.grids = cut(family)
        self.tokens = tokens
        self.code, self.engine, self.folder = lowering(engine), engines.find(engine), folder
        self.uncut = self.code.lower(folded.plain, tokens=tokens, precision="int8")
        self.cut = self.code.lower_segments(folded.segments(), tokens=tokens, classes=CLASSES)
        (folder / f"uncut{self.code.SUFFIX}").write_bytes(self.uncut.payload)
        for name, content in self.cut.files.items():
            (folder / f"{name}{self.code.SUFFIX}").write_bytes(content)

    def load(self, place):
        """-> the uncut session of a bucket, then one a segment."""
        pieces = [("uncut", self.uncut.buckets[place])]
        pieces += [(self.cut.file_of(rung), buckets[place]) for rung, buckets in self.cut.buckets.items()]
        return [
            self.engine.load(self.folder / f"{file}{self.code.SUFFIX}", Entry("", "", b.method, b.inputs, b.outputs), threads=1)
            for file, b in pieces
        ]


def chain(sessions, ids, keep):
    """Logits of every segment, each fed with the features of the one before."""
    logits, x = [], ids
    for session in sessions:
        answer, *features = session.run(x, keep)
        logits.append(answer)
        x = features[0] if features else None
    return logits


def worst(files):
    """Largest difference of the chain's last answer from the uncut network, and how many answers occur."""
    off, seen = 0.0, set()
    for place, tokens in enumerate(files.tokens):
        uncut, *parts = files.load(place)
        for used in range(2, tokens + 1, 2):
            ids, keep = text(tokens, used=used)
            ids = ids.astype(files.uncut.buckets[place].inputs[0].dtype)
            wanted, found = uncut.run(ids, keep)[0], chain(parts, ids, keep)[-1]
            off = max(off, float(np.abs(wanted - found).max()))
            seen.add(wanted.tobytes())
        for session in (uncut, *parts):
            session.close()
    return off, len(seen)

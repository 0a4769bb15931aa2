"""Bundles of one tiny network, and engines without a library that run it."""

import dataclasses
import time
from types import SimpleNamespace

import numpy as np

from edgekit.spec import manifest as m
from edgekit.spec.bundle import write_bundle

CLASSES, SIDE, GOLDENS = 4, 8, 2
SCALE = 0.5
PIXELS = np.random.default_rng(0).integers(0, 256, (GOLDENS, SIDE, SIDE, 3), np.uint8)
WEIGHTS = np.random.default_rng(1).normal(size=(CLASSES, 3)).astype(np.float32)
TABLE = np.tile((np.arange(256, dtype=np.float32) - 127) / 128, (3, 1))


def float_logits(pixels):
    """(height, width, 3) uint8 -> (CLASSES,): mean colour times WEIGHTS."""
    return WEIGHTS @ ((pixels.astype(np.float32).mean((0, 1)) - 127) / 128) * 20


def quantized(values, zero_point=0):
    low, high = (0, 255) if zero_point else (-128, 127)
    steps = np.clip(np.round(values / SCALE) + zero_point, low, high)
    return steps.astype(np.uint8 if zero_point else np.int8)


def outputs_of(precision, zero_point):
    logits = np.stack([float_logits(p) for p in PIXELS])
    return quantized(logits, zero_point) if precision == "int8" else logits.astype(np.float32)


def payload(engine, precision, zero_point=0, file="network.bin"):
    out = outputs_of(precision, zero_point)
    quant = (SCALE, zero_point) if precision == "int8" else (None, None)
    image = m.TensorSpec("image", "float32", (1, 3, SIDE, SIDE), "NCHW")
    logits = m.TensorSpec("logits", out.dtype.name, (1, CLASSES), "NC", *quant)
    name = f"{engine}-{precision}"
    return m.Payload(
        name,
        engine,
        precision,
        (m.Entry("full", file, "forward" if engine != "onnx" else "", (image,), (logits,), "table.bin"),),
        m.Placement("CPU", None, ()),
        (m.GoldenOutputs("full", f"goldens/{name}.bin", out.dtype.name, out.shape, 0.01),),
    )


def bundle(out, payloads, *, network=b"tiny", labels=("ant", "bee", "cat", "dog"), goldens=None):
    """Write a bundle of some payloads -> its path."""
    manifest = m.Manifest(
        m.FORMAT,
        m.ModelInfo("tiny", "classification", CLASSES, "random", ""),
        m.TargetInfo("host", tuple(dict.fromkeys(p.engine for p in payloads))),
        m.Preprocess("RGB", "bilinear", (127.0,) * 3, (128.0,) * 3),
        (m.Rung("full", SIDE, SIDE),),
        tuple(payloads),
        (m.GoldenInputs("full", "images.bin", PIXELS.shape),),
        "labels.txt",
        {},
        (),
    )
    contents = {
        "images.bin": PIXELS.tobytes(),
        "labels.txt": ("\n".join(labels) + "\n").encode(),
        "network.bin": network,
        "table.bin": TABLE.astype("<f4").tobytes(),
    }
    for p in payloads:
        zero_point = p.entries[0].outputs[0].zero_point or 0
        contents[f"goldens/{p.id}.bin"] = (goldens or outputs_of)(p.precision, zero_point).tobytes()
    write_bundle(manifest, contents, out)
    return out


@dataclasses.dataclass
class FakeSession:
    """Runs the network in numpy; `busy_ms` of CPU time and `shift` steps on the first class make it slow or wrong."""

    entry: m.Entry
    busy_ms: float = 0.0
    shift: int = 0
    closed: bool = False
    delegate: str = "NUMPY"
    fallback: tuple = ()

    def run(self, *inputs):
        end = time.process_time() + self.busy_ms / 1000
        while time.process_time() < end:
            pass
        spec = self.entry.outputs[0]
        logits = WEIGHTS @ inputs[0][0].mean((1, 2)) * 20
        if spec.scale is None:
            return (logits[None].astype(spec.dtype),)
        steps = quantized(logits, spec.zero_point)
        steps[0] += self.shift
        return (steps[None],)

    def close(self):
        self.closed = True


@dataclasses.dataclass
class FakeEngine:
    """Stands in for an engine's module. `busy_ms` and `shift` by precision."""

    busy_ms: dict = dataclasses.field(default_factory=dict)
    shift: int = 0
    installed: bool = True
    sessions: list = dataclasses.field(default_factory=list)
    INSTALL: str = "pip install fake"

    def version(self):
        return "1.0" if self.installed else None

    def load(self, path, entry, *, threads):
        precision = "int8" if entry.outputs[0].scale else "fp32"
        self.sessions.append(FakeSession(entry, self.busy_ms.get(precision, 0.0), self.shift))
        return self.sessions[-1]


def pictures(images, labels=None, classes=()):
    """Stands in for a data set."""

    def take(n, seed=0):
        return pictures(images[:n], None if labels is None else labels[:n], classes)

    return SimpleNamespace(
        labels=labels, classes=classes, take=take, iter_images=lambda **_: iter(images), __len__=lambda: len(images)
    )

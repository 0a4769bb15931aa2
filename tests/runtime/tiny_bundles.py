"""Bundles around the tiny network, with whatever engines a test asks for."""

import numpy as np
import tiny_payloads as tiny

from edgekit.runtime.pixels import apply_table, make_table
from edgekit.spec import manifest as m
from edgekit.spec.bundle import write_bundle

PREPROCESS = m.Preprocess("RGB", "bilinear", tiny.MEAN, tiny.STD)
SUFFIX = {"executorch": "pte", "litert": "tflite", "onnx": "onnx"}


def image_spec(engine, *, shift=0):
    dtype = "uint8" if shift else "int8"
    if engine == "litert":
        return m.TensorSpec("image", dtype, (1, tiny.SIDE, tiny.SIDE, 3), "NHWC", tiny.IN_SCALE, tiny.IN_ZERO + shift)
    return m.TensorSpec("image", dtype, (1, 3, tiny.SIDE, tiny.SIDE), "NCHW", tiny.IN_SCALE, tiny.IN_ZERO + shift)


def logits_spec(*, shift=0):
    dtype = "uint8" if shift else "int8"
    return m.TensorSpec("logits", dtype, (1, tiny.CLASSES), "NC", tiny.OUT_SCALE, tiny.OUT_ZERO + shift)


def entry(engine, *, shift=0, method=None, file=None):
    method = {"executorch": "forward", "litert": "serving_default"}.get(engine, "") if method is None else method
    file = file or f"payloads/int8.{SUFFIX.get(engine, 'bin')}"
    table = f"tables/{'uint8' if shift else 'int8'}.bin"
    return m.Entry("full", file, method, (image_spec(engine, shift=shift),), (logits_spec(shift=shift),), table)


def expected():
    """(n, classes) int8 for the golden images."""
    table = make_table(PREPROCESS, image_spec("onnx"))
    return np.concatenate([tiny.reference(apply_table(image, table, layout="NCHW")) for image in tiny.golden_images()])


def payload(engine, *, tolerance=1.0, shift=0):
    placement = m.Placement("XNNPACK", None, (m.OperatorCount("convolution", "int8", 1, ""),))
    golden = m.GoldenOutputs(
        "full", f"goldens/{engine}.bin", "uint8" if shift else "int8", (tiny.IMAGES, tiny.CLASSES), tolerance
    )
    return m.Payload(f"{engine}-int8", engine, "int8", (entry(engine, shift=shift),), placement, (golden,))


def manifest(payloads, *, engines=("executorch", "litert", "onnx")):
    return m.Manifest(
        m.FORMAT,
        m.ModelInfo("tiny", "classification", tiny.CLASSES, "random", ""),
        m.TargetInfo("host", engines),
        PREPROCESS,
        (m.Rung("full", tiny.SIDE, tiny.SIDE + 2),),
        payloads,
        (m.GoldenInputs("full", "goldens/images.bin", (tiny.IMAGES, tiny.SIDE, tiny.SIDE, 3)),),
        "labels.txt",
        {"edgekit": "test"},
        (),
    )


def write(out, files, *, wrong=(), engines=("executorch", "litert", "onnx")):
    """Bundle at `out` from engine -> payload file or bytes; goldens of the engines in `wrong` are 9 steps off."""
    contents = {
        "goldens/images.bin": tiny.golden_images().tobytes(),
        "labels.txt": "".join(f"label {i}\n" for i in range(tiny.CLASSES)).encode(),
        "tables/int8.bin": make_table(PREPROCESS, image_spec("onnx")).tobytes(),
    }
    for engine, file in files.items():
        steps = expected().astype(np.int16) + (9 if engine in wrong else 0)
        contents[f"goldens/{engine}.bin"] = np.clip(steps, -128, 127).astype(np.int8).tobytes()
        contents[entry(engine).file] = file
    write_bundle(manifest(tuple(payload(engine) for engine in files), engines=engines), contents, out)
    return out

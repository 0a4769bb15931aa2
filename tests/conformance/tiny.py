"""Two small bundles that no engine could load: `tiny` uses every field, `nano` has one rung and one payload."""

import math
import struct

from edgekit.spec import manifest as m

CLASSES, SIDE, IMAGES = 3, 2, 2
MEAN, STD = (127.0, 127.0, 127.0), (128.0, 128.0, 128.0)
SCALE, ZERO_POINT = 0.0078125, -1


def quantize(x, scale, zero_point, low=-128, high=127):
    """Half away from zero on the float64 quotient, then the zero point, then the clamp."""
    quotient = x / scale
    steps = math.trunc(quotient)
    if abs(quotient - steps) >= 0.5:
        steps += 1 if quotient > 0 else -1
    return min(max(steps + zero_point, low), high)


def pixel_table(mean=MEAN, std=STD, scale=SCALE, zero_point=ZERO_POINT, low=-128, high=127):
    """(3, 256) integers."""
    return [[quantize((pixel - mean[c]) / std[c], scale, zero_point, low, high) for pixel in range(256)] for c in range(3)]


def nano_contents():
    """All files of `nano` but the manifest."""
    return {
        "goldens/images.bin": bytes((37 * i + 11) % 256 for i in range(IMAGES * SIDE * SIDE * 3)),
        "goldens/low.int8.bin": struct.pack("<6b", 7, -15, 0, 10, 20, -2),
        "labels.txt": "tench\nchâtaigne\n\u706b\n".encode(),
        "payloads/network.bin": b"not a network, but its bytes are checked all the same",
        "tables/int8.bin": struct.pack("<768b", *(value for row in pixel_table() for value in row)),
    }


def tiny_contents():
    """All files of `tiny` but the manifest."""
    floats = [(pixel - MEAN[c]) / STD[c] for c in range(3) for pixel in range(256)]
    return {
        **nano_contents(),
        "goldens/full.fp32.bin": struct.pack("<6f", 0.5, -1.25, 0.25, 2.0, 2.0, -0.125),
        "goldens/full.int8.bin": struct.pack("<6b", 5, -12, 3, 20, 20, -1),
        "goldens/low.fp32.bin": struct.pack("<6f", 0.75, -1.5, 0.0, 1.0, 2.0, -0.25),
        "tables/fp32.bin": struct.pack("<768f", *floats),
    }


def _payload(engine, precision, rungs):
    integer = precision == "int8"
    dtype = "int8" if integer else "float32"

    def tensor(name, shape, layout, scale, zero_point):
        return m.TensorSpec(name, dtype, shape, layout, *((scale, zero_point) if integer else (None, None)))

    image = tensor("image", (1, 3, SIDE, SIDE), "NCHW", SCALE, ZERO_POINT)
    features = tensor("features", (1, 4, 1, 1), "NCHW", 0.02, -128)
    logits = tensor("logits", (1, CLASSES), "NC", 0.1, 3)
    entries = {
        "low": m.Entry("low", "payloads/network.bin", "low", (image,), (logits, features), f"tables/{precision}.bin"),
        "full": m.Entry("full", "payloads/network.bin", "full", (features,), (logits,)),
    }
    goldens = [
        m.GoldenOutputs(rung, f"goldens/{rung}.{precision}.bin", dtype, (IMAGES, CLASSES), 2 if integer else 0.001)
        for rung in rungs
    ]
    placement = m.Placement("XNNPACK", 1 if integer else None, (m.OperatorCount("convolution", dtype, 2, "XNNPACK"),))
    return m.Payload(f"{engine}-{precision}", engine, precision, tuple(entries[r] for r in rungs), placement, tuple(goldens))


def _manifest(rungs, payloads):
    return m.Manifest(
        m.FORMAT,
        m.ModelInfo("tiny", "image-classification", CLASSES, "random", "", "Apache-2.0"),
        m.TargetInfo("host", ("executorch", "litert")),
        m.Preprocess("RGB", "bicubic", MEAN, STD),
        rungs,
        payloads,
        (m.GoldenInputs("low", "goldens/images.bin", (IMAGES, SIDE, SIDE, 3)),),
        "labels.txt",
        {"edgekit": "0.1.0", "torch": "2.13.0"},
        (),
    )


def nano_manifest():
    """All of `nano` but the list of files."""
    return _manifest((m.Rung("low", SIDE, 3),), (_payload("executorch", "int8", ("low",)),))


def tiny_manifest():
    """All of `tiny` but the list of files."""
    rungs = (m.Rung("low", SIDE, 3), m.Rung("full", SIDE, 3, continues=True))
    payloads = (_payload("executorch", "int8", ("low", "full")), _payload("litert", "fp32", ("low", "full")))
    return _manifest(rungs, payloads)

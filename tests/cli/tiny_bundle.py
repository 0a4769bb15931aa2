"""A real bundle of a network so small that it is written by hand: mean colour times a matrix, as ONNX."""

import numpy as np

from edgekit.spec import manifest as m
from edgekit.spec.bundle import write_bundle

SIDE, CLASSES = 8, 4
LABELS = ("ant", "bee", "cat", "dog")
WEIGHTS = np.random.default_rng(1).normal(size=(CLASSES, 3)).astype(np.float32) * 20
PIXELS = np.random.default_rng(0).integers(0, 256, (2, SIDE, SIDE, 3), np.uint8)
TABLE = np.tile((np.arange(256, dtype=np.float32) - 127) / 128, (3, 1))


def logits(pixels):
    return WEIGHTS @ ((pixels.astype(np.float32).mean((0, 1)) - 127) / 128)


def network():
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("GlobalAveragePool", ["image"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("Gemm", ["flat", "weights"], ["logits"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 3, SIDE, SIDE))],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, (1, CLASSES))],
        [numpy_helper.from_array(WEIGHTS, "weights")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def write(out, *, wrong=0.0):
    """Write the bundle; `wrong` is added to its golden outputs."""
    goldens = np.stack([logits(image) for image in PIXELS]).astype(np.float32) + np.float32(wrong)
    payload = m.Payload(
        "onnx-fp32",
        "onnx",
        "fp32",
        (
            m.Entry(
                "full",
                "model.onnx",
                "",
                (m.TensorSpec("image", "float32", (1, 3, SIDE, SIDE), "NCHW"),),
                (m.TensorSpec("logits", "float32", (1, CLASSES), "NC"),),
                "pixels.bin",
            ),
        ),
        m.Placement("CPUExecutionProvider", None, (m.OperatorCount("Gemm", "float32", 1),)),
        (m.GoldenOutputs("full", "goldens.bin", "float32", goldens.shape, 1e-3),),
    )
    manifest = m.Manifest(
        m.FORMAT,
        m.ModelInfo("tiny", "image-classification", CLASSES, "random", ""),
        m.TargetInfo("host", ("onnx",)),
        m.Preprocess("RGB", "bilinear", (127.0,) * 3, (128.0,) * 3),
        (m.Rung("full", SIDE, SIDE),),
        (payload,),
        (m.GoldenInputs("full", "images.bin", PIXELS.shape),),
        "labels.txt",
        {"edgekit": "test"},
        (),
    )
    contents = {
        "model.onnx": network(),
        "pixels.bin": TABLE.tobytes(),
        "goldens.bin": goldens.tobytes(),
        "images.bin": PIXELS.tobytes(),
        "labels.txt": "\n".join(LABELS).encode(),
    }
    write_bundle(manifest, contents, out)
    return out

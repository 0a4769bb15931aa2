"""Ladders of tiny networks: photos with two rungs that start again, texts with a rung that goes on with features."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import tiny_bundles
import tiny_payloads
import tiny_text

from edgekit.spec import manifest as m
from edgekit.spec.bundle import open_bundle, write_bundle

NAMES = ("low", "high")
ALL = ((0.9, 0.1, 0.2), (-0.4, 0.8, 0.1), (0.3, -0.2, 0.7))
MIX = np.array(ALL, np.float32)


def of_photos(out: Path, files: dict, *, margin=0.0, margins=None) -> Path:
    """The tiny network twice: `low` sees the middle of a larger image than `high` does."""
    made = tiny_bundles.write(out.with_name(f"{out.name}-plain"), files)
    with open_bundle(made) as reader:
        contents = {name: reader.read(name) for name in reader.files}
        plain = reader.manifest
    rungs = (
        m.Rung("low", tiny_payloads.SIDE, 2 * tiny_payloads.SIDE, min_margin=margin, margins=margins),
        m.Rung("high", tiny_payloads.SIDE, tiny_payloads.SIDE + 2),
    )
    payloads = tuple(
        dataclasses.replace(
            each,
            entries=tuple(dataclasses.replace(each.entries[0], rung=name) for name in NAMES),
            goldens=tuple(dataclasses.replace(each.goldens[0], rung=name) for name in NAMES),
        )
        for each in plain.payloads
    )
    inputs = tuple(dataclasses.replace(plain.golden_inputs[0], rung=name) for name in NAMES)
    write_bundle(dataclasses.replace(plain, rungs=rungs, payloads=payloads, golden_inputs=inputs, files=()), contents, out)
    return out


def exit_and_rest() -> tuple[bytes, bytes]:
    """ONNX of a text network cut in two; the exit's answer is `tiny_text.reference`, the last one mixes it."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    def value(name, shape, kind=TensorProto.FLOAT):
        return helper.make_tensor_value_info(name, kind, shape)

    mean = [
        helper.make_node("MatMul", ["keep", "rows"], ["sums"]),
        helper.make_node("ReduceSum", ["keep", "one"], ["count"]),
        helper.make_node("Div", ["sums", "count"], ["mean"]),
    ]
    one = numpy_helper.from_array(np.array([1], np.int64), "one")
    features, keep = value("rows", ("n", tiny_text.CLASSES)), value("keep", (1, "n"))
    answer = value("logits", (1, tiny_text.CLASSES))
    nodes = [
        helper.make_node("Reshape", ["ids", "flat"], ["listed"]),
        helper.make_node("Gather", ["table", "listed"], ["rows"]),
        *mean,
        helper.make_node("Identity", ["mean"], ["logits"]),
    ]
    constants = [
        numpy_helper.from_array(tiny_text.TABLE, "table"),
        numpy_helper.from_array(np.array([-1], np.int64), "flat"),
        one,
    ]
    first = helper.make_graph(nodes, "exit", [value("ids", (1, "n"), TensorProto.INT64), keep], [answer, features], constants)
    last = helper.make_graph(
        [*mean, helper.make_node("MatMul", ["mean", "mix"], ["logits"])],
        "rest",
        [features, keep],
        [answer],
        [numpy_helper.from_array(MIX, "mix"), one],
    )
    opset = [helper.make_opsetid("", 17)]
    found = [helper.make_model(graph, opset_imports=opset, ir_version=8) for graph in (first, last)]
    for model in found:
        onnx.checker.check_model(model)
    return found[0].SerializeToString(), found[1].SerializeToString()


def of_texts(out: Path, *, margin=0.0, margins=None) -> Path:
    """Rungs `exit` and `last`, two buckets each."""
    made = tiny_text.write(out.with_name(f"{out.name}-plain"))
    with open_bundle(made) as reader:
        contents = {name: reader.read(name) for name in reader.files if name != "model.onnx"}
        plain = reader.manifest
    contents["exit.onnx"], contents["last.onnx"] = exit_and_rest()
    (payload,) = plain.payloads
    entries, goldens = [], []
    for rung in ("exit", "last"):
        for entry, golden in zip(payload.entries, payload.goldens, strict=True):
            rows = m.TensorSpec("rows", "float32", (entry.tokens, tiny_text.CLASSES), "TC")
            inputs = entry.inputs if rung == "exit" else (rows, entry.inputs[1])
            outputs = (*entry.outputs, rows) if rung == "exit" else entry.outputs
            entries.append(dataclasses.replace(entry, rung=rung, file=f"{rung}.onnx", inputs=inputs, outputs=outputs))
            file = f"{rung}-{golden.file}"
            wanted = np.frombuffer(contents[golden.file], "<f4").reshape(golden.shape)
            contents[file] = (wanted if rung == "exit" else wanted @ MIX).astype("<f4").tobytes()
            goldens.append(dataclasses.replace(golden, rung=rung, file=file))
    for golden in payload.goldens:
        del contents[golden.file]
    rungs = (m.Rung("exit", min_margin=margin, margins=margins), m.Rung("last", continues=True))
    inputs = tuple(dataclasses.replace(each, rung="exit") for each in plain.golden_inputs)
    payload = dataclasses.replace(payload, entries=tuple(entries), goldens=tuple(goldens))
    manifest = dataclasses.replace(plain, rungs=rungs, payloads=(payload,), golden_inputs=inputs, files=())
    write_bundle(manifest, contents, out)
    return out


def as_json(result) -> dict:
    """A result as programs get it."""
    from edgekit.spec.codec import to_json

    return json.loads(json.dumps(to_json(result)))

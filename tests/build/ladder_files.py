"""Payloads of a network cut into segments, and what they are judged by."""

import functools
from collections import Counter

import numpy as np
import onnx
import torch
from ladder_toys import RUNGS, images, quantized

from edgekit import catalog
from edgekit.build import operators
from edgekit.build.ladder.segments import segments, whole
from edgekit.build.operators import float_operators
from edgekit.build.recipe import Recipe
from edgekit.runtime.engines.pte import read_plans
from edgekit.runtime.verify import steps_of
from edgekit.spec.manifest import Entry

__all__ = ["DTYPES", "ENGINES", "Files", "chain", "check_cuts", "in_steps", "integers", "tensor", "worst"]

ENGINES = ("executorch", "litert", "onnx")
DTYPES = {"executorch": "int8", "litert": "int8", "onnx": "uint8"}
IMAGES = 64


def in_steps(program, photos):
    """int8 photos as the real values that a quantized program takes."""
    return (torch.from_numpy(photos).float() - program.entry.zero_point) * program.entry.scale


@functools.cache
def integers(recipe=Recipe()):  # noqa: B008 - frozen
    """(64, 3, h, w) int8 of photos that calibration did not see."""
    entry = quantized(recipe=recipe).entry
    steps = torch.round(images(IMAGES, seed=7) / entry.scale) + entry.zero_point
    return steps.clamp(-128, 127).to(torch.int8).numpy()


def tensor(photo, spec):
    """(3, h, w) int8 -> what an entry takes."""
    x = photo[None].transpose(0, 2, 3, 1) if spec.layout == "NHWC" else photo[None]
    return np.ascontiguousarray((x.astype(np.int16) + 128).astype(np.uint8) if spec.dtype == "uint8" else x)


class Files:
    """Payloads of one engine: the network uncut, and its segments."""

    def __init__(self, engine, folder, *, program):
        code = catalog.find_lowering(engine)
        self.engine, self.module, self.suffix = engine, catalog.find_engine(engine), code.SUFFIX
        uncut = code.lower_integer(whole(program), activation_dtype=DTYPES[engine])
        self.rungs = code.lower_rungs(dict(zip(RUNGS, segments(program), strict=True)), activation_dtype=DTYPES[engine])
        self.folder = folder
        self.uncut = folder / f"uncut{code.SUFFIX}"
        self.uncut.write_bytes(uncut.payload)
        for name, content in self.rungs.files.items():
            self.path(name).write_bytes(content)
        self.entry = Entry("all", self.uncut.name, uncut.method, uncut.inputs, uncut.outputs)

    def path(self, file):
        return self.folder / f"rungs-{file}{self.suffix}"

    def load(self):
        """-> the uncut session, then one a segment."""
        sessions = [self.module.load(self.uncut, self.entry, threads=1)]
        for name, piece in self.rungs.pieces.items():
            entry = Entry(name, "", piece.method, piece.inputs, piece.outputs)
            sessions.append(self.module.load(self.path(piece.file), entry, threads=1))
        return sessions


def chain(sessions, x):
    """Logits of every segment, each fed with the features of the one before."""
    logits, features = [], (x,)
    for session in sessions:
        answer, *features = session.run(*features)
        logits.append(answer)
    return logits


def worst(files, photos):
    """Largest difference of the chain's last answer from the uncut network, in steps, and how many answers occur."""
    uncut, *parts = files.load()
    off, seen = 0, set()
    for photo in photos:
        x = tensor(photo, files.entry.inputs[0])
        wanted, found = steps_of(uncut.run(x)[0]), steps_of(chain(parts, x)[-1])
        off = max(off, int(np.abs(wanted - found).max()))
        seen.add(wanted.tobytes())
    for session in (uncut, *parts):
        session.close()
    return off, len(seen)


def check_cuts(files):
    """Nothing converts at an edge, every graph runs in one piece, and every layer on integers."""
    CHECKS[files.engine](files)
    for name, piece in files.rungs.pieces.items():
        placement = operators.read_methods(files.engine, files.path(piece.file))[piece.method]
        assert float_operators(placement) == (), name
        assert any("conv" in operator.type.lower() for operator in placement.operators), name


def one_delegate_call(files):
    plans = read_plans(files.rungs.files["executorch"])
    assert [plan.name for plan in plans] == sorted(RUNGS)
    assert all(plan.delegate_calls == ("XnnpackBackend",) and not plan.kernel_calls for plan in plans)


def no_quantize_nor_transpose(files):
    uncut, *parts = operators_of(files.uncut.read_bytes()) + operators_of(files.rungs.files["litert"])
    assert len(parts) == len(RUNGS)
    for part in parts:
        assert part["CONV_2D"]
        assert not any(part[kind] for kind in ("QUANTIZE", "DEQUANTIZE", "TRANSPOSE"))
    together = sum(parts, Counter())
    assert together["PAD"] == uncut["PAD"]
    assert together["ADD"] == uncut["ADD"]
    sessions = files.load()
    assert all(session.delegate == "XNNPACK" and not session.fallback for session in sessions)
    for session in sessions:
        session.close()


def operators_of(payload):
    """Counts of operators by name, of each graph of a `.tflite`."""
    from ai_edge_litert import schema_py_generated as schema
    from ai_edge_litert.tools import flatbuffer_utils

    names = {value: name for name, value in vars(schema.BuiltinOperator).items() if not name.startswith("_")}
    model = flatbuffer_utils.read_model_from_bytearray(bytearray(payload))
    kinds = [names[max(code.builtinCode, code.deprecatedBuiltinCode)] for code in model.operatorCodes]
    return [Counter(kinds[operator.opcodeIndex] for operator in graph.operators) for graph in model.subgraphs]


def integers_from_edge_to_edge(files):
    for name in files.rungs.files:
        graph = onnx.load(files.path(name)).graph
        edges = {value.name for value in (*graph.input, *graph.output)}
        at_edges = [n.op_type for n in graph.node if n.op_type == "QuantizeLinear" and edges & set(n.input)]
        at_edges += [n.op_type for n in graph.node if n.op_type == "DequantizeLinear" and edges & set(n.output)]
        assert not at_edges
        assert {v.type.tensor_type.elem_type for v in (*graph.input, *graph.output)} == {onnx.TensorProto.UINT8}
        found = {(o.type, o.dtype) for o in operators.read("onnx", files.path(name)).operators}
        assert not {kind for kind, _ in found} & {"QuantizeLinear", "DequantizeLinear"}
        assert ("QLinearConv", "uint8") in found


CHECKS = {"executorch": one_delegate_call, "litert": no_quantize_nor_transpose, "onnx": integers_from_edge_to_edge}

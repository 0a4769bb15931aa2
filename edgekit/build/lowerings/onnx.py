"""ONNX: exported program -> QDQ `.onnx` that ONNX Runtime runs on integers from edge to edge."""

import logging
import warnings
from collections.abc import Mapping

import onnx_ir as ir
import torch
from torch.export import ExportedProgram

from edgekit.build.integer import Edge
from edgekit.build.lowerings import Lowered, LoweredRungs, Piece, onnx_floats, onnx_passes, output_specs
from edgekit.build.programs import edge_shapes, half, plain, shapes
from edgekit.build.quantize import Quantized
from edgekit.spec.manifest import TensorSpec

__all__ = ["NAME", "SUFFIX", "TOOLS", "export", "lower_float", "lower_integer", "lower_rungs", "serialize"]

NAME = "onnx"
SUFFIX = ".onnx"
TOOLS = ("onnx", "onnx-ir", "onnxscript", "torch", "torchao")

UINT8_OFFSET = 128
"""uint8 is int8 with zero point and values moved up by this."""


def lower_integer(quantized: Quantized, *, activation_dtype: str) -> Lowered:
    """(1, 3, h, w) -> (1, classes), both of `activation_dtype`: `uint8` is 1.7 times faster on x86."""
    size, outputs = edge_shapes(quantized.folded)
    names = ("logits", "features")[: len(outputs)]
    model = export(quantized.folded, (torch.zeros(size),), names=(("x",), names))
    graph = model.graph
    onnx_passes.fold_pads(graph)
    onnx_passes.pool_globally(graph)
    onnx_passes.quantize_biases(graph)
    offset = 0
    if activation_dtype == "uint8":
        onnx_passes.shift_to_uint8(graph)
        offset = UINT8_OFFSET
    onnx_passes.clamp_integers(graph)
    onnx_passes.pad_integers(graph)
    onnx_passes.strip_edges(graph)
    onnx_floats.keep_floats(graph)
    entry = TensorSpec("x", activation_dtype, size, "NCHW", quantized.entry.scale, quantized.entry.zero_point + offset)
    shifted = [Edge(each.scale, each.zero_point + offset) for each in quantized.exits]
    return Lowered(serialize(model), "", (entry,), output_specs(outputs, shifted, dtype=activation_dtype))


def lower_rungs(rungs: Mapping[str, Quantized], *, activation_dtype: str) -> LoweredRungs:
    """A file for each rung: the format has no several entries."""
    files, pieces = {}, {}
    for name, quantized in rungs.items():
        lowered = lower_integer(quantized, activation_dtype=activation_dtype)
        files[name] = lowered.payload
        pieces[name] = Piece(name, "", lowered.inputs, lowered.outputs)
    return LoweredRungs(files, pieces)


def lower_float(program: ExportedProgram, *, precision: str) -> Lowered:
    """(1, 3, h, w) -> (1, classes), both float32 or both float16."""
    program = half(program) if precision == "fp16" else plain(program)
    dtype = "float16" if precision == "fp16" else "float32"
    size, out = shapes(program)
    model = export(program, (torch.zeros(size, dtype=getattr(torch, dtype)),))
    onnx_passes.pool_globally(model.graph)
    return Lowered(serialize(model), "", (TensorSpec("x", dtype, size, "NCHW"),), (TensorSpec("logits", dtype, out, "NC"),))


def export(
    program: ExportedProgram,
    inputs: tuple[torch.Tensor, ...],
    *,
    names: tuple[tuple[str, ...], tuple[str, ...]] = (("x",), ("logits",)),
    opset: int | None = None,
) -> ir.Model:
    """The exporter, without its chatter, and with these names of inputs and outputs; None takes its own opset."""
    exporter = logging.getLogger("torch.onnx")
    level = exporter.level
    exporter.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exported = torch.onnx.export(
                program,
                inputs,
                dynamo=True,
                external_data=False,
                verbose=False,
                opset_version=opset,
                input_names=list(names[0]),
                output_names=list(names[1]),
            )
    finally:
        exporter.setLevel(level)
    graph = exported.model.graph
    for value, name in zip((*graph.inputs, *graph.outputs), (*names[0], *names[1]), strict=True):
        value.name = name
    return exported.model


def serialize(model: ir.Model) -> bytes:
    """Without traces and scopes of the exporter: they hold paths of this machine."""
    model.metadata_props.clear()
    model.graph.metadata_props.clear()
    for node in model.graph:
        node.metadata_props.clear()
        node.doc_string = None
    for value in (*model.graph.inputs, *model.graph.outputs, *model.graph.initializers.values()):
        value.metadata_props.clear()
    for node in model.graph:
        for value in node.outputs:
            value.metadata_props.clear()
    model.graph.name = "edgekit"
    model.producer_name, model.producer_version = "edgekit", ""
    return ir.to_proto(model).SerializeToString(deterministic=True)

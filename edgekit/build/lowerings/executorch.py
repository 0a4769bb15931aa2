"""ExecuTorch: exported program -> `.pte` for the XNNPACK delegate."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

import torch
from executorch.backends.xnnpack.operators.node_visitor import NodeVisitor
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from torch.export import ExportedProgram

from edgekit.build.forms_norms import norms_as_products
from edgekit.build.integer import integer_edges
from edgekit.build.lowerings import Lowered, LoweredRungs, Piece, output_specs, xnnpack_graph
from edgekit.build.programs import edge_shapes, graph_of, half, plain, shapes
from edgekit.build.quantize import Quantized
from edgekit.spec.manifest import TensorSpec

__all__ = ["NAME", "SUFFIX", "TOOLS", "half_weights", "lower_float", "lower_integer", "lower_program", "lower_rungs"]

NAME = "executorch"
SUFFIX = ".pte"
TOOLS = ("executorch", "torch", "torchao")


def lower_integer(quantized: Quantized, *, activation_dtype: str) -> Lowered:
    """(1, 3, h, w) int8 -> (1, classes) int8, one delegate call. XNNPACK knows int8 activations only."""
    rungs = lower_rungs({"forward": quantized}, activation_dtype=activation_dtype)
    piece = rungs.pieces["forward"]
    return Lowered(rungs.files[piece.file], piece.method, piece.inputs, piece.outputs)


def lower_rungs(rungs: Mapping[str, Quantized], *, activation_dtype: str) -> LoweredRungs:
    """A method for each rung, one delegate call each, in one file that holds equal weights once."""
    del activation_dtype
    programs = {name: _integer_program(quantized) for name, quantized in rungs.items()}
    return LoweredRungs({NAME: lower_program(programs)}, {name: _piece(name, quantized) for name, quantized in rungs.items()})


def _integer_program(quantized: Quantized) -> ExportedProgram:
    graph = graph_of(quantized.folded)
    integer_edges(graph)
    return torch.export.export(graph, (torch.zeros(shapes(quantized.folded)[0], dtype=torch.int8),), strict=False)


def _piece(name: str, quantized: Quantized) -> Piece:
    size, outputs = edge_shapes(quantized.folded)
    entry = TensorSpec("x", "int8", size, "NCHW", quantized.entry.scale, quantized.entry.zero_point)
    return Piece(NAME, name, (entry,), output_specs(outputs, quantized.exits, dtype="int8"))


def lower_float(program: ExportedProgram, *, precision: str) -> Lowered:
    """(1, 3, h, w) -> (1, classes), both float32 or both float16."""
    program = half(program) if precision == "fp16" else plain(program)
    dtype = "float16" if precision == "fp16" else "float32"
    size, out = shapes(program)
    program = _without_norms(program)
    with half_weights():
        payload = lower_program(program)
    return Lowered(payload, "forward", (TensorSpec("x", dtype, size, "NCHW"),), (TensorSpec("logits", dtype, out, "NC"),))


def _without_norms(program: ExportedProgram) -> ExportedProgram:
    """The same program where it has no layer norm."""
    graph = graph_of(program)
    if not norms_as_products(graph):
        return program
    if program.example_inputs[0][0].dtype is torch.float16:
        graph = graph.half()
    return torch.export.export(graph, tuple(program.example_inputs[0]), strict=False)


def lower_program(program: ExportedProgram | dict[str, ExportedProgram]) -> bytes:
    """A float or quantized program, or several by method -> the bytes of a `.pte` for XNNPACK."""
    with xnnpack_graph.rewriting():
        lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    return bytes(lowered.to_executorch().buffer)


@contextlib.contextmanager
def half_weights() -> Iterator[None]:
    """Keep float16 weights of convolutions float16.

    The serializer of ExecuTorch 1.5.1 asks for float32 there, which doubles the file; XNNPACK takes float16 weights as they are.
    """
    define = NodeVisitor.define_tensor

    def define_as_is(self: NodeVisitor, tensor: torch.fx.Node, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("force_fp32") and tensor.meta["val"].dtype is torch.float16:
            kwargs["force_fp32"] = False
        define(self, tensor, *args, **kwargs)

    with mock.patch.object(NodeVisitor, "define_tensor", define_as_is):
        yield

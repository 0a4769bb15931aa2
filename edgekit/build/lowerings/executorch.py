"""ExecuTorch: exported program -> `.pte` for the XNNPACK delegate."""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from executorch.backends.xnnpack.operators.node_visitor import NodeVisitor
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from torch.export import ExportedProgram

from edgekit.build.forms_norms import norms_as_products
from edgekit.build.integer import integer_edges
from edgekit.build.lowerings import Lowered, xnnpack_graph
from edgekit.build.programs import graph_of, half, plain, shapes
from edgekit.build.quantize import Quantized
from edgekit.spec.manifest import TensorSpec

__all__ = ["NAME", "SUFFIX", "TOOLS", "half_weights", "lower_float", "lower_integer", "lower_program"]

NAME = "executorch"
SUFFIX = ".pte"
TOOLS = ("executorch", "torch", "torchao")


def lower_integer(quantized: Quantized, *, activation_dtype: str) -> Lowered:
    """(1, 3, h, w) int8 -> (1, classes) int8, one delegate call. XNNPACK knows int8 activations only."""
    del activation_dtype
    graph = graph_of(quantized.folded)
    integer_edges(graph)
    size, out = shapes(quantized.folded)
    program = torch.export.export(graph, (torch.zeros(size, dtype=torch.int8),), strict=False)
    entry, end = quantized.entry, quantized.exit
    return Lowered(
        payload=lower_program(program),
        method="forward",
        inputs=(TensorSpec("x", "int8", size, "NCHW", entry.scale, entry.zero_point),),
        outputs=(TensorSpec("logits", "int8", out, "NC", end.scale, end.zero_point),),
    )


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


def lower_program(program: ExportedProgram) -> bytes:
    """A float or quantized program -> the bytes of a `.pte` for XNNPACK."""
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

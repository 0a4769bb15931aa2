"""A text network -> one `.onnx` with a symbolic length, for ONNX Runtime's CPU provider.

| precision | linear layers | word embedding |
|---|---|---|
| `int8` | MatMulInteger on activations quantized at run time, one scale for the whole tensor | int8 |
| `int8-weights` | float32 arithmetic; int8 in the file | int8 |
| `int8-static` | Q and DQ around each, uint8 activations | int8 |
| `fp16` | float32 arithmetic; float16 in the file | float16 |
| `fp32` | float32 | float32 |

Narrow layers of an `int8` payload (`LEAST_COLUMNS`) compute in float32 as well, on the same integers: quantizing their input
costs more than their integer product saves.
"""

import warnings
from collections.abc import Collection, Sequence

import numpy as np
import onnx
import onnx_ir as ir
import torch

from edgekit.build.lowerings.onnx import export, serialize
from edgekit.build.lowerings.onnx_passes import sweep
from edgekit.build.text import lower_onnx_passes as passes
from edgekit.build.text.integers import Exportable, grids_of, names_by_weight
from edgekit.build.text.lower_ranges import measure
from edgekit.build.text.lowered import TextLowered, bucket, check, check_all, example

__all__ = ["LEAST_COLUMNS", "NAME", "SUFFIX", "TOOLS", "lower", "weights_of"]

NAME = "onnx"
SUFFIX = ".onnx"
TOOLS = ("onnx", "onnx-ir", "onnxscript", "torch")

LEAST_COLUMNS = 128
"""Inputs of a linear layer from which on integer arithmetic pays on ONNX Runtime."""

OPSET = 20
"""The first with Gelu, which the exporter otherwise spells out in five operators."""

EDGES = ("ids", "keep", "logits")


def lower(
    plain: Exportable,
    *,
    tokens: tuple[int, ...],
    precision: str,
    float_layers: Collection[str] = (),
    samples: Sequence[torch.Tensor] = (),
) -> TextLowered:
    """(1, n) int64 ids and (1, n) float32 keep -> (1, outputs) float32, for any n up to the network's positions.

    Args:
        plain: the network, snapped for an INT8 precision.
        tokens: lengths of the buckets, ascending.
        precision: one of `PRECISIONS`.
        float_layers: linear layers that stay float32.
        samples: texts (k, n) int64, -1 is padding, to measure ranges with; only of `int8-static`.

    Raises:
        InputError: `text-buckets`, `text-samples`.
        UnknownName: no such precision or linear layer.
    """
    check(plain, tokens, precision=precision, float_layers=float_layers)
    model = _export(plain, "int8" if precision.startswith("int8") else "float", max(tokens))
    passes.fold_shifts(model.graph)
    if precision == "fp16":
        passes.halve_weights(model.graph)
    elif precision.startswith("int8"):
        _quantize(model.graph, plain, precision, float_layers=float_layers, samples=samples, longest=max(tokens))
    width = int(model.graph.outputs[0].shape[1])
    buckets = tuple(bucket(n, method="", names=EDGES, ids_dtype="int64", outputs=width) for n in tokens)
    return TextLowered(_serialize(model), buckets)


def weights_of(payload: bytes) -> tuple[np.ndarray, ...]:
    """int8 matrices of a payload as (rows, columns), one row for each output, and the table."""
    found = []
    for value in ir.from_proto(onnx.load_from_string(payload)).graph.initializers.values():
        array = passes.constant(value)
        if array.dtype != np.int8 or array.ndim != 2:
            continue
        lying = any(use.node.op_type == "MatMulInteger" for use in value.uses())
        found.append(array.T if lying else array)
    return tuple(found)


def _quantize(
    graph: ir.Graph,
    plain: Exportable,
    precision: str,
    *,
    float_layers: Collection[str],
    samples: Sequence[torch.Tensor],
    longest: int,
) -> None:
    grids = grids_of(plain, float_layers=float_layers)
    ranges = measure(plain, samples, tokens=longest) if precision == "int8-static" else {}
    done = set()
    for name, node in passes.linears(graph, names_by_weight(plain.linears())):
        if name not in grids:
            continue
        grid = grids[name]
        if precision == "int8-static":
            passes.quantize_statically(graph, node, grid, name=name, ranges=ranges[name])
        elif precision == "int8" and grid.values.shape[1] >= LEAST_COLUMNS:
            passes.quantize_dynamically(graph, node, grid, name=name)
        else:
            passes.store_integers(graph, node, grid, name=name)
        done.add(name)
    check_all(done, grids, engine=NAME, precision=precision)
    sweep(graph)


def _export(plain: Exportable, table: str, length: int) -> ir.Model:
    inputs = example(length)
    any_length = {1: torch.export.Dim.DYNAMIC}
    form = plain.form(tokens=None, norm="native", table=table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(form, inputs, dynamic_shapes=(any_length, any_length), strict=False)
    model = export(program, inputs, names=(EDGES[:2], EDGES[2:]), opset=OPSET)
    for value in model.graph.inputs:
        value.shape = ir.Shape([1, "tokens"])
    return model


def _serialize(model: ir.Model) -> bytes:
    """Without the exporter's own names of lengths."""
    edges = {id(v) for v in (*model.graph.inputs, *model.graph.outputs)}
    for node in model.graph:
        for value in node.outputs:
            if id(value) not in edges:
                value.shape = value.type = None
    return serialize(model)

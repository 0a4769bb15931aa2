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
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir
import torch

from edgekit.build.lowerings.onnx import export, serialize
from edgekit.build.lowerings.onnx_passes import sweep
from edgekit.build.text import lower_onnx_passes as passes
from edgekit.build.text.integers import Exportable, grids_of, names_by_weight
from edgekit.build.text.lower_ranges import measure
from edgekit.build.text.lowered import SegmentsLowered, TextLowered, bucket, check, check_all, example, segment_bucket
from edgekit.build.text.segments import Segment

__all__ = ["LEAST_COLUMNS", "NAME", "SUFFIX", "TOOLS", "lower", "lower_segments", "weights_of"]

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
    form = plain.form(tokens=None, norm="native", table="int8" if precision.startswith("int8") else "float")
    model = _export(form, example(max(tokens)), names=(EDGES[:2], EDGES[2:]))
    passes.fold_shifts(model.graph)
    if precision == "fp16":
        passes.halve_weights(model.graph)
    elif precision.startswith("int8"):
        _quantize(model.graph, plain, precision, float_layers=float_layers, samples=samples, longest=max(tokens))
    width = int(model.graph.outputs[0].shape[1])
    buckets = tuple(bucket(n, method="", names=EDGES, ids_dtype="int64", outputs=width) for n in tokens)
    return TextLowered(_serialize(model), buckets)


def lower_segments(segments: Mapping[str, Segment], *, tokens: tuple[int, ...], classes: int) -> SegmentsLowered:
    """Segments of a snapped network, by rung -> an INT8 file for each: the format has no several entries; see `lower`.

    Raises:
        GoalError: `float-operator`.
        InputError: `text-buckets`.
    """
    files, buckets = {}, {}
    for rung, segment in segments.items():
        check(segment, tokens, precision="int8", float_layers=())
        names = ("ids" if segment.begins else "features", "keep", "logits", "next_features")
        form = segment.form(tokens=None, norm="native", table="int8")
        model = _export(form, segment.example(max(tokens)), names=(names[:2], names[2:3] if segment.ends else names[2:]))
        passes.fold_shifts(model.graph)
        _quantize(model.graph, segment, "int8", float_layers=(), samples=(), longest=max(tokens))
        files[rung] = _serialize(model)
        buckets[rung] = tuple(
            segment_bucket(segment, n, method="", names=names, ids_dtype="int64", classes=classes) for n in tokens
        )
    return SegmentsLowered(files, buckets)


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


def _export(
    form: torch.nn.Module, inputs: tuple[torch.Tensor, ...], *, names: tuple[tuple[str, ...], tuple[str, ...]]
) -> ir.Model:
    """Ids, or features (tokens, hidden), and keep -> outputs, for any number of tokens."""
    axes = [0 if x.dtype == torch.float32 and place == 0 else 1 for place, x in enumerate(inputs)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lengths = tuple({axis: torch.export.Dim.DYNAMIC} for axis in axes)
        program = torch.export.export(form, inputs, dynamic_shapes=lengths, strict=False)
    model = export(program, inputs, names=names, opset=OPSET)
    for value, x, axis in zip(model.graph.inputs, inputs, axes, strict=True):
        value.shape = ir.Shape(["tokens" if place == axis else side for place, side in enumerate(x.shape)])
    for value in model.graph.outputs[1:]:
        value.shape = ir.Shape(["tokens", value.shape[1]])
    return model


def _serialize(model: ir.Model) -> bytes:
    """Without the exporter's own names of lengths."""
    edges = {id(v) for v in (*model.graph.inputs, *model.graph.outputs)}
    for node in model.graph:
        for value in node.outputs:
            if id(value) not in edges:
                value.shape = value.type = None
    return serialize(model)

"""A text network -> one `.tflite` with a signature for each bucket, for LiteRT's XNNPACK delegate.

| precision | linear layers | word embedding |
|---|---|---|
| `int8` | int8 weights; each row of activations is quantized at run time | int8 |
| `int8-weights` | float32 arithmetic; int8 in the file | int8 |
| `fp16` | float32 arithmetic; float16 in the file | float16 |
| `fp32` | float32 | float32 |

The converter writes float32 linear layers; their weights are then replaced in the file by the integers that all engines share.
Signatures share constants, which the converter writes once.
"""

import os
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

# The converter reads its log settings when it is imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import litert_torch
import numpy as np
import torch
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.tools import flatbuffer_utils

from edgekit.build.lowerings.litert import quiet
from edgekit.build.text.integers import Exportable, Grid, fingerprint, grids_of, names_by_weight
from edgekit.build.text.lowered import (
    SegmentsLowered,
    TextLowered,
    bucket,
    check,
    check_all,
    example,
    segment_bucket,
    unsupported,
)
from edgekit.build.text.segments import Segment

__all__ = ["NAME", "SUFFIX", "TOOLS", "lower", "lower_segments", "signature_of", "store_integers", "weights_of"]

NAME = "litert"
SUFFIX = ".tflite"
TOOLS = ("litert-torch", "litert-converter", "ai-edge-litert", "torch")

EDGES = ("args_0", "args_1", "output_0")
LEAST_HALVED = 1024
"""Elements from which on a constant is worth two bytes instead of four."""

DEQUANTIZE_VERSION = 5
"""Of the operator: the first with float16 and with a scale for each row."""

TYPES = schema.TensorType
OPERATORS = schema.BuiltinOperator


def signature_of(tokens: int) -> str:
    """Name of a bucket's signature."""
    return f"tokens_{tokens}"


def lower(
    plain: Exportable,
    *,
    tokens: tuple[int, ...],
    precision: str,
    float_layers: Collection[str] = (),
    samples: Sequence[torch.Tensor] = (),
) -> TextLowered:
    """(1, n) int32 ids and (1, n) float32 keep -> (1, outputs) float32, a signature for each n of `tokens`.

    Args:
        plain: the network, snapped for an INT8 precision.
        tokens: lengths of the buckets, ascending.
        precision: one of `PRECISIONS`.
        float_layers: linear layers that stay float32.
        samples: not used; there is no payload with fixed scales.

    Raises:
        GoalError: `text-precision`; `int8-static`.
        InputError: `text-buckets`.
        UnknownName: no such precision or linear layer.
    """
    del samples
    check(plain, tokens, precision=precision, float_layers=float_layers)
    if precision == "int8-static":
        raise unsupported(NAME, precision, why="its converter fixes scales of whole networks only, not of linear layers alone")
    integer = precision.startswith("int8")
    table = "int8" if integer else "float"
    model = _convert(
        {signature_of(n): (plain.form(tokens=n, norm="native", table=table), example(n, ids_dtype=torch.int32)) for n in tokens}
    )
    if integer:
        store_integers(model, plain, grids_of(plain, float_layers=float_layers), precision=precision)
    elif precision == "fp16":
        _store_halves(model)
    outputs = int(model.subgraphs[0].tensors[model.subgraphs[0].outputs[0]].shape[1])
    buckets = tuple(bucket(n, method=signature_of(n), names=EDGES, ids_dtype="int32", outputs=outputs) for n in tokens)
    return TextLowered(bytes(flatbuffer_utils.convert_object_to_bytearray(model)), buckets)


def lower_segments(segments: Mapping[str, Segment], *, tokens: tuple[int, ...], classes: int) -> SegmentsLowered:
    """Segments of a snapped network, by rung -> one INT8 file with a signature for each rung and bucket; see `lower`.

    Raises:
        GoalError: `float-operator`.
        InputError: `text-buckets`.
    """
    signatures, buckets = {}, {}
    grids: dict[str, Grid] = {}
    linears: dict[str, torch.nn.Linear] = {}
    for rung, segment in segments.items():
        check(segment, tokens, precision="int8", float_layers=())
        grids |= grids_of(segment)
        linears |= segment.linears()
        for n in tokens:
            form = segment.form(tokens=n, norm="native", table="int8")
            signatures[f"{rung}_{signature_of(n)}"] = (form, segment.example(n, ids_dtype=torch.int32))
        buckets[rung] = tuple(
            segment_bucket(
                segment, n, method=f"{rung}_{signature_of(n)}", names=(*EDGES, "output_1"), ids_dtype="int32", classes=classes
            )
            for n in tokens
        )
    model = _convert(signatures)
    _store(model, linears, grids, precision="int8")
    return SegmentsLowered({NAME: bytes(flatbuffer_utils.convert_object_to_bytearray(model))}, buckets)


def weights_of(payload: bytes) -> tuple[np.ndarray, ...]:
    """int8 matrices of a payload, each buffer once: linear weights as (rows, columns), one row for each output, and the table."""
    model = flatbuffer_utils.read_model_from_bytearray(bytearray(payload))
    found = {}
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            data = model.buffers[tensor.buffer].data
            if tensor.type == TYPES.INT8 and data is not None and len(tensor.shape) == 2:
                found[tensor.buffer] = np.asarray(data, dtype=np.uint8).view(np.int8).reshape(tensor.shape)
    return tuple(found.values())


def _convert(signatures: Mapping[str, tuple[torch.nn.Module, tuple[torch.Tensor, ...]]]) -> Any:
    """By name of the signature: a form, and inputs to export it with."""
    converter: Any = litert_torch
    for name, (form, inputs) in signatures.items():
        converter = converter.signature(name, form, inputs)
    with quiet(), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        converter.convert().export(str(path))
        return flatbuffer_utils.read_model_from_bytearray(bytearray(path.read_bytes()))


def store_integers(model: Any, plain: Exportable, grids: dict[str, Grid], *, precision: str) -> None:
    """`FULLY_CONNECTED(x, W, b)` -> the same with int8 W and a scale for each row, or with `DEQUANTIZE(W)` of it."""
    _store(model, plain.linears(), grids, precision=precision)


def _store(model: Any, linears: Mapping[str, torch.nn.Linear], grids: Mapping[str, Grid], *, precision: str) -> None:
    names = names_by_weight(linears)
    layers: dict[int, str] = {}
    for tensor in _weights(model):
        floats = None if tensor.buffer in layers else _floats(model, tensor)
        if floats is not None:
            layers[tensor.buffer] = names.get(fingerprint(floats), "")
    layers = {buffer: name for buffer, name in layers.items() if name in grids}
    check_all(layers.values(), grids, engine=NAME, precision=precision)
    for buffer, name in layers.items():
        model.buffers[buffer].data = grids[name].values.reshape(-1).view(np.uint8)
    for graph in model.subgraphs:
        for index, tensor in enumerate(list(graph.tensors)):
            if tensor.buffer not in layers:
                continue
            grid = grids[layers[tensor.buffer]]
            tensor.type = TYPES.INT8
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale = grid.scales
            tensor.quantization.zeroPoint = np.zeros(len(grid.scales), np.int64)
            tensor.quantization.quantizedDimension = 0
            if precision == "int8-weights":
                _dequantize(model, graph, index)


def _weights(model: Any) -> Iterator[Any]:
    """Second operands of all linear layers."""
    for graph in model.subgraphs:
        for operator in graph.operators:
            if _kind(model, operator) == OPERATORS.FULLY_CONNECTED:
                yield graph.tensors[operator.inputs[1]]


def _store_halves(model: Any) -> None:
    """`f(W)` -> `f(DEQUANTIZE(W))` with W in float16, for every large constant W."""
    halved = {}
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            if tensor.buffer in halved or (floats := _floats(model, tensor)) is None or floats.size < LEAST_HALVED:
                continue
            halved[tensor.buffer] = floats.astype(np.float16).reshape(-1).view(np.uint8)
    for buffer, data in halved.items():
        model.buffers[buffer].data = data
    for graph in model.subgraphs:
        for index, tensor in enumerate(list(graph.tensors)):
            if tensor.buffer in halved:
                tensor.type = TYPES.FLOAT16
                _dequantize(model, graph, index)


def _dequantize(model: Any, graph: Any, index: int) -> None:
    """Let all who read constant `index` read its float32 values, made by an operator at the start of the graph."""
    constant = graph.tensors[index]
    real = schema.TensorT()
    real.shape, real.type, real.name, real.buffer = constant.shape, TYPES.FLOAT32, constant.name + b"_float32", 0
    graph.tensors.append(real)
    place = len(graph.tensors) - 1
    for operator in graph.operators:
        operator.inputs = [place if i == index else i for i in operator.inputs]
    new = schema.OperatorT()
    new.opcodeIndex, new.inputs, new.outputs = _opcode(model, OPERATORS.DEQUANTIZE), [index], [place]
    graph.operators.insert(0, new)


def _opcode(model: Any, kind: int) -> int:
    for index, code in enumerate(model.operatorCodes):
        if max(code.builtinCode, code.deprecatedBuiltinCode) == kind:
            return index
    code = schema.OperatorCodeT()
    code.builtinCode, code.deprecatedBuiltinCode, code.version = kind, kind, DEQUANTIZE_VERSION
    model.operatorCodes.append(code)
    return len(model.operatorCodes) - 1


def _kind(model: Any, operator: Any) -> int:
    code = model.operatorCodes[operator.opcodeIndex]
    return max(int(code.builtinCode), int(code.deprecatedBuiltinCode))


def _floats(model: Any, tensor: Any) -> np.ndarray | None:
    """What a float32 constant holds; None for anything else."""
    data = model.buffers[tensor.buffer].data
    if tensor.type != TYPES.FLOAT32 or data is None or len(data) == 0:
        return None
    return np.asarray(data, dtype=np.uint8).view(np.float32).reshape(tensor.shape)

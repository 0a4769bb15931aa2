"""Rewrites of the linear layers of an exported ONNX graph. Each works in place.

A linear layer is a `Gemm(x, W, b)` with `transB`, as the exporter writes it, or a `MatMul(x, W)`; its weight is a constant.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit.build.lowerings.onnx_passes import sweep
from edgekit.build.text.integers import Grid, fingerprint
from edgekit.build.text.lower_ranges import Range

__all__ = [
    "constant",
    "fold_shifts",
    "halve_weights",
    "linears",
    "quantize_dynamically",
    "quantize_statically",
    "store_integers",
]

FLOAT, FLOAT16 = ir.DataType.FLOAT, ir.DataType.FLOAT16
LEAST_HALVED = 1024
"""Elements from which on a constant is worth two bytes instead of four."""


def linears(graph: ir.Graph, names: Mapping[str, str]) -> Iterator[tuple[str, ir.Node]]:
    """Linear layers in order, with their names; `names` are by fingerprint of the (rows, columns) weight."""
    for node in list(graph):
        if node.op_type not in ("Gemm", "MatMul") or node.inputs[1] is None or node.inputs[1].const_value is None:
            continue
        weight = constant(node.inputs[1])
        name = names.get(fingerprint(weight if _transposed(node) else weight.T)) if weight.ndim == 2 else None
        if name is not None:
            yield name, node


def fold_shifts(graph: ir.Graph) -> int:
    """`(h * gain + shift) + Gemm(x, W, b)` -> `h * gain + Gemm(x, W, b + shift)`; returns how many: one pass over memory less."""
    count = 0
    for node in [n for n in graph if n.op_type == "Add"]:
        for place, value in enumerate(node.inputs):
            shifted, layer = value.producer(), node.inputs[1 - place].producer()
            if shifted is None or layer is None or shifted.op_type != "Add" or layer.op_type != "Gemm":
                continue
            state, shift = shifted.inputs
            bias = _bias(layer)
            if shift.const_value is None or (bias is not None and bias.const_value is None):
                continue
            if shift.shape != layer.outputs[0].shape[1:]:
                continue
            if len(value.uses()) != 1 or len(layer.outputs[0].uses()) != 1:
                continue
            # The exporter drops a bias of zeros.
            moved = constant(shift) if bias is None else constant(bias) + constant(shift)
            layer.resize_inputs(3)
            layer.replace_input_with(2, _initializer(graph, f"{layer.outputs[0].name}.bias", moved))
            node.replace_input_with(place, state)
            count += 1
            break
    sweep(graph)
    return count


def quantize_dynamically(graph: ir.Graph, node: ir.Node, grid: Grid, *, name: str) -> None:
    """`Gemm(x, W, b)` -> `Cast(MatMulInteger(q, Wq, zero)) * (s * Ws) + b`, where `q, s, zero = DynamicQuantizeLinear(x)`.

    Layers that read the same x share its DynamicQuantizeLinear. ONNX Runtime fuses either form into one kernel.
    """
    x = node.inputs[0]
    quantize = next((use.node for use in x.uses() if use.node.op_type == "DynamicQuantizeLinear"), None)
    if quantize is None:
        quantize = ir.node("DynamicQuantizeLinear", [x], num_outputs=3, name=f"{name}.quantize")
        for value, part in zip(quantize.outputs, ("steps", "scale", "zero"), strict=True):
            value.name = f"{name}.{part}"
        graph.insert_before(node, quantize)
    steps, scale, zero = quantize.outputs
    weight = _initializer(graph, f"{name}.weight_int8", np.ascontiguousarray(grid.values.T))
    weight_scale = _initializer(graph, f"{name}.weight_scale", grid.scales)
    product = _before(graph, node, "MatMulInteger", [steps, weight, zero], f"{name}.product")
    real = _before(graph, node, "Cast", [product], f"{name}.cast", {"to": FLOAT})
    scales = _before(graph, node, "Mul", [scale, weight_scale], f"{name}.scales")
    scaled = _before(graph, node, "Mul", [real, scales], f"{name}.scaled")
    bias = _bias(node)
    if bias is None:
        _replace(graph, node, scaled)
    else:
        _replace(graph, node, _before(graph, node, "Add", [scaled, bias], f"{name}.sum"))


def store_integers(graph: ir.Graph, node: ir.Node, grid: Grid, *, name: str) -> None:
    """`Gemm(x, W, b)` -> `Gemm(x, Cast(Wq) * Ws, b)`: int8 in the file; the engine computes W once, when it loads it."""
    values, scales = _oriented(node, grid)
    weight = _initializer(graph, f"{name}.weight_int8", values)
    real = _before(graph, node, "Cast", [weight], f"{name}.weight_cast", {"to": FLOAT})
    scale = _initializer(graph, f"{name}.weight_scale", scales)
    node.replace_input_with(1, _before(graph, node, "Mul", [real, scale], f"{name}.weight"))


def quantize_statically(graph: ir.Graph, node: ir.Node, grid: Grid, *, name: str, ranges: tuple[Range, Range]) -> None:
    """`Gemm(x, W, b)` -> `DQ(Q(Gemm(DQ(Q(x)), DQ(Wq), DQ(bq))))`, uint8 activations, int32 bias."""
    entry, end = ranges
    scale, zero = entry.uint8()
    values, _ = _oriented(node, grid)
    weight = [
        _initializer(graph, f"{name}.weight_int8", values),
        _initializer(graph, f"{name}.weight_scale", grid.scales),
        _initializer(graph, f"{name}.weight_zero", np.zeros(len(grid.scales), np.int8)),
    ]
    axis = {"axis": 0 if _transposed(node) else 1}
    bias = _bias(node)
    node.replace_input_with(0, _rounded(graph, node, node.inputs[0], (scale, zero), f"{name}.in"))
    node.replace_input_with(1, _before(graph, node, "DequantizeLinear", weight, f"{name}.weight", axis))
    if bias is not None:
        step = grid.scales * np.float32(scale)
        integers = np.rint(constant(bias) / step).clip(-(2**31), 2**31 - 128).astype(np.int32)
        parts = [_initializer(graph, f"{name}.bias_int32", integers), _initializer(graph, f"{name}.bias_scale", step)]
        node.replace_input_with(2, _before(graph, node, "DequantizeLinear", parts, f"{name}.bias", {"axis": 0}))
    twin = ir.node(node.op_type, list(node.inputs), attributes=dict(node.attributes), name=f"{name}.real")
    twin.outputs[0].name = f"{name}.real"
    graph.insert_before(node, twin)
    _replace(graph, node, _rounded(graph, node, twin.outputs[0], end.uint8(), f"{name}.out"))


def halve_weights(graph: ir.Graph) -> int:
    """Float constants of 1,024 elements or more -> float16 and a Cast, which the engine folds when it loads; returns how many.

    Rows of a table are looked up in float16, and only they are cast.
    """
    found = [v for v in graph.initializers.values() if v.dtype is FLOAT and v.const_value.size >= LEAST_HALVED]
    for value in found:
        half = _initializer(graph, f"{value.name}_float16", constant(value).astype(np.float16))
        for use in list(value.uses()):
            node = use.node
            if node.op_type == "Gather" and use.idx == 0:
                rows = _before(graph, node, "Gather", [half, *node.inputs[1:]], f"{value.name}.rows", dict(node.attributes))
                _replace(graph, node, _before(graph, node, "Cast", [rows], f"{value.name}.cast", {"to": FLOAT}))
            else:
                cast = _before(graph, node, "Cast", [half], f"{node.outputs[0].name}.{use.idx}.cast", {"to": FLOAT})
                node.replace_input_with(use.idx, cast)
    sweep(graph)
    return len(found)


def constant(value: ir.Value) -> np.ndarray:
    """What a constant holds."""
    tensor = ir.convenience.get_const_tensor(value)
    if tensor is None:
        raise ValueError(f"{value.name} is not a constant")
    return np.asarray(tensor.numpy())


def _transposed(node: ir.Node) -> bool:
    """True if the weight is (rows, columns), one row for each output."""
    return node.op_type == "Gemm" and "transB" in node.attributes and node.attributes["transB"].as_int() == 1


def _oriented(node: ir.Node, grid: Grid) -> tuple[np.ndarray, np.ndarray]:
    """Values and scales as this layer holds its weight."""
    if _transposed(node):
        return grid.values, grid.scales[:, None]
    return np.ascontiguousarray(grid.values.T), grid.scales[None, :]


def _bias(node: ir.Node) -> ir.Value | None:
    return node.inputs[2] if node.op_type == "Gemm" and len(node.inputs) > 2 else None


def _rounded(graph: ir.Graph, node: ir.Node, value: ir.Value, grid: tuple[float, int], name: str) -> ir.Value:
    parts = [_initializer(graph, f"{name}_scale", np.float32(grid[0])), _initializer(graph, f"{name}_zero", np.uint8(grid[1]))]
    steps = _before(graph, node, "QuantizeLinear", [value, *parts], f"{name}_steps")
    return _before(graph, node, "DequantizeLinear", [steps, *parts], f"{name}_real")


def _before(
    graph: ir.Graph, node: ir.Node, kind: str, inputs: list[ir.Value | None], name: str, attributes: Any = None
) -> ir.Value:
    """Result of a new node in front of `node`."""
    new = ir.node(kind, inputs, attributes=attributes or {}, name=name)
    new.outputs[0].name = name
    graph.insert_before(node, new)
    return new.outputs[0]


def _replace(graph: ir.Graph, old: ir.Node, new: ir.Value) -> None:
    out = old.outputs[0]
    new.shape, new.type = out.shape, out.type
    name = out.name
    ir.convenience.replace_nodes_and_values(graph, old, [old], [], [out], [new])
    new.name = name


def _initializer(graph: ir.Graph, name: str, array: np.ndarray) -> ir.Value:
    tensor = ir.tensor(np.asarray(array), name=name)
    value = ir.Value(name=name, shape=ir.Shape(tensor.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)
    graph.register_initializer(value)
    return value

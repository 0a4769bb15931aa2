"""Float layers inside an integer ONNX graph."""

import numpy as np
import onnx_ir as ir

__all__ = ["keep_floats"]

LAYERS = ("Conv", "Gemm")


def keep_floats(graph: ir.Graph) -> int:
    """`DQ(s) -> Conv or Gemm with float weights` -> `DQ((s, ..., s)) -> the same`; returns how many.

    ONNX Runtime rounds the weights of a float layer between DQ and Q to int8, one scale for all of them, if the scale of the DQ
    is a single number. The same scale for each channel means the same values, and the layer is left alone.
    """
    count = 0
    for node in [n for n in graph if n.op_type in LAYERS]:
        x, weight = node.inputs[:2]
        dequantize = _dequantize(x)
        if x is None or dequantize is None or _dequantize(weight) is not None:
            continue
        source, shape = dequantize.inputs[0], x.shape
        if shape is None or len(shape) < 2 or not isinstance(shape[1], int):
            continue
        base = node.outputs[0].name
        each = [_spread(graph, v, shape[1], f"{base}_input_{n}") for v, n in zip(dequantize.inputs[1:], "sz", strict=True)]
        own = ir.node("DequantizeLinear", [source, *each], attributes={"axis": 1}, name=f"{base}_input_dequantize")
        own.outputs[0].name = f"{base}_input"
        own.outputs[0].shape, own.outputs[0].type = shape, x.type
        graph.insert_before(node, own)
        node.replace_input_with(0, own.outputs[0])
        if not dequantize.outputs[0].uses():
            graph.remove(dequantize, safe=True)
        count += 1
    return count


def _dequantize(value: ir.Value | None) -> ir.Node | None:
    maker = None if value is None else value.producer()
    return maker if maker is not None and maker.op_type == "DequantizeLinear" else None


def _spread(graph: ir.Graph, value: ir.Value | None, channels: int, name: str) -> ir.Value:
    """A constant with one element -> the same for every channel."""
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    if tensor is None:
        raise ValueError(f"{name} does not come from a constant")
    spread = ir.tensor(np.full(channels, tensor.numpy().reshape(())), name=name)
    found = ir.Value(name=name, shape=ir.Shape([channels]), type=ir.TensorType(spread.dtype), const_value=spread)
    graph.register_initializer(found)
    return found

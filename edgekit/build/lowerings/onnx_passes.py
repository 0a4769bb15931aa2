"""Passes that make an exported QDQ graph fully integer for ONNX Runtime. Each works in place and returns how often it applied.

ONNX Runtime fuses `DequantizeLinear -> operator -> QuantizeLinear` into an integer kernel only where it recognises the
operator, its bias is int32 and the types of all its activations agree; whatever does not match runs in float without a word.
"""

import numpy as np
import onnx_ir as ir

__all__ = [
    "clamp_integers",
    "fold_pads",
    "pad_integers",
    "pool_globally",
    "quantize_biases",
    "shift_to_uint8",
    "strip_edges",
    "sweep",
]

WEIGHTED = ("Conv", "Gemm", "MatMul")


def fold_pads(graph: ir.Graph) -> int:
    """`DQ -> Pad(0) -> Q -> DQ -> Conv` -> `DQ -> Conv(pads)`: padding with 0.0 is padding with the zero point."""
    count = 0
    for conv in [n for n in graph if n.op_type == "Conv"]:
        pad = _producer(conv.inputs[0])
        between: list[ir.Node] = []
        while pad is not None and pad.op_type in ("DequantizeLinear", "QuantizeLinear"):
            between.append(pad)
            pad = _producer(pad.inputs[0])
            if len(between) == 2:
                break
        if pad is None or pad.op_type != "Pad" or not _same_scale(between, pad) or not _pads_zero(pad):
            continue
        amounts = _constant(pad.inputs[1]).tolist()
        rank = len(amounts) // 2
        if any(amounts[:2]) or any(amounts[rank : rank + 2]):
            continue
        old = list(conv.attributes["pads"].as_ints())
        new = [a + b for a, b in zip(old, amounts[2:rank] + amounts[rank + 2 :], strict=True)]
        conv.attributes["pads"] = ir.AttrInt64s("pads", new)
        conv.replace_input_with(0, pad.inputs[0])
        count += 1
    sweep(graph)
    return count


def _same_scale(between: list[ir.Node], pad: ir.Node) -> bool:
    """Nothing between padding and convolution, or a Q and DQ with the scale that the padding's input already has."""
    source = _producer(pad.inputs[0])
    if not between:
        return True
    if len(between) != 2 or source is None or source.op_type != "DequantizeLinear":
        return False
    return all(
        np.array_equal(_constant(n.inputs[i]), _constant(source.inputs[i]))
        for n in between
        for i in (1, 2)
        if n.inputs[i] is not None
    )


def _pads_zero(pad: ir.Node) -> bool:
    constant = pad.attributes["mode"].as_string() == "constant" if "mode" in pad.attributes else True
    fill = pad.inputs[2] if len(pad.inputs) > 2 else None
    return constant and (fill is None or float(_constant(fill)) == 0.0)


def pool_globally(graph: ir.Graph) -> int:
    """`ReduceMean(axes=[2, 3], keepdims=1)` -> `GlobalAveragePool`, for which there is an integer kernel."""
    count = 0
    for node in [n for n in graph if n.op_type == "ReduceMean"]:
        axes, keep = _axes(node), node.attributes.get("keepdims")
        rank = len(node.inputs[0].shape or ())
        if rank != 4 or sorted(a % rank for a in axes) != [2, 3] or (keep is not None and keep.as_int() != 1):
            continue
        pool = ir.node("GlobalAveragePool", [node.inputs[0]], name=node.name)
        _substitute(graph, node, pool)
        count += 1
    sweep(graph)
    return count


def _axes(node: ir.Node) -> list[int]:
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        return [int(a) for a in _constant(node.inputs[1]).tolist()]
    return list(node.attributes["axes"].as_ints()) if "axes" in node.attributes else []


def quantize_biases(graph: ir.Graph) -> int:
    """Float bias -> int32 bias behind a DequantizeLinear of scale_x * scale_w, which is where its value already lies."""
    count = 0
    for node in [n for n in graph if n.op_type in WEIGHTED and len(n.inputs) > 2 and n.inputs[2] is not None]:
        x, weight = _producer(node.inputs[0]), _producer(node.inputs[1])
        bias = node.inputs[2]
        if bias.const_value is None or not (_is(x, "DequantizeLinear") and _is(weight, "DequantizeLinear")):
            continue
        scale = _constant(x.inputs[1]).astype(np.float64) * _constant(weight.inputs[1]).astype(np.float64).ravel()
        steps = np.rint(_constant(bias).astype(np.float64) / scale)
        # scale_x * scale_w as float32, as ONNX Runtime itself computes it.
        single = scale.astype(np.float32) if scale.size > 1 else scale.astype(np.float32).reshape(())
        base = node.outputs[0].name
        dequantize = ir.node(
            "DequantizeLinear",
            [
                _initializer(graph, f"{base}_bias_steps", steps.astype(np.int32)),
                _initializer(graph, f"{base}_bias_scale", single),
                _initializer(graph, f"{base}_bias_zero", np.zeros(single.shape, np.int32)),
            ],
            attributes={"axis": 0} if scale.size > 1 else {},
            name=f"{base}_bias_dequantize",
        )
        graph.insert_before(node, dequantize)
        node.replace_input_with(2, dequantize.outputs[0])
        count += 1
    sweep(graph)
    return count


def shift_to_uint8(graph: ir.Graph) -> int:
    """int8 activations with zero point z -> uint8 with zero point z + 128: the same real values; weights stay int8."""
    count = 0
    weights = {id(n.inputs[1]) for n in graph if n.op_type in WEIGHTED}
    zeros: dict[int, ir.Value] = {}
    for node in [n for n in graph if n.op_type in ("QuantizeLinear", "DequantizeLinear")]:
        zero = node.inputs[2]
        if zero is None or _constant(zero).dtype != np.int8 or id(node.outputs[0]) in weights:
            continue
        if id(zero) not in zeros:
            zeros[id(zero)] = _initializer(graph, f"{zero.name}_uint8", (_constant(zero).astype(np.int32) + 128).astype(np.uint8))
        node.replace_input_with(2, zeros[id(zero)])
        if node.inputs[0].const_value is not None:
            moved = (_constant(node.inputs[0]).astype(np.int32) + 128).astype(np.uint8)
            node.replace_input_with(0, _initializer(graph, f"{node.outputs[0].name}_constant", moved))
        if node.op_type == "QuantizeLinear":
            node.attributes.pop("output_dtype", None)
            node.outputs[0].dtype = ir.DataType.UINT8
        count += 1
    sweep(graph)
    return count


def clamp_integers(graph: ir.Graph) -> int:
    """`f -> Clip or Relu -> Q` -> `f -> Q -> Clip` on integers: rounding keeps order, so the integers are the same.

    ONNX Runtime leaves f in float where a clamp, that the range of Q does not imply, stands between f and Q.
    """
    count = 0
    for quantize in [n for n in graph if n.op_type == "QuantizeLinear"]:
        clamp = _producer(quantize.inputs[0])
        if not (_is(clamp, "Clip") or _is(clamp, "Relu")) or len(clamp.outputs[0].uses()) != 1:
            continue
        low, high = [*clamp.inputs[1:], None, None][:2]
        bounds = (0.0 if clamp.op_type == "Relu" else low, high)
        source = _producer(clamp.inputs[0])
        if _is(source, "DequantizeLinear") and _same_parameters(source, quantize):
            moved = source.inputs[0]
        else:
            moved = _requantize(graph, quantize, clamp.inputs[0])
        base = quantize.outputs[0].name
        limits = [
            None if b is None else _steps_of(graph, b, quantize, f"{base}_{side}") for b, side in zip(bounds, "lh", strict=True)
        ]
        _substitute(graph, quantize, ir.node("Clip", [moved, *limits], name=f"{base}_clamp"))
        count += 1
    sweep(graph)
    return count


def pad_integers(graph: ir.Graph) -> int:
    """`DQ -> Pad(c) -> Q` of one scale -> `Pad` on integers, which ONNX Runtime has but does not choose on its own."""
    count = 0
    for quantize in [n for n in graph if n.op_type == "QuantizeLinear"]:
        pad = _producer(quantize.inputs[0])
        source = _producer(pad.inputs[0]) if _is(pad, "Pad") else None
        if not _is(source, "DequantizeLinear") or not _same_parameters(source, quantize) or len(pad.outputs[0].uses()) != 1:
            continue
        fill = pad.inputs[2] if len(pad.inputs) > 2 and pad.inputs[2] is not None else 0.0
        value = _steps_of(graph, fill, quantize, f"{quantize.outputs[0].name}_fill")
        inputs = [source.inputs[0], pad.inputs[1], value, *pad.inputs[3:]]
        _substitute(graph, quantize, ir.node("Pad", inputs, attributes=dict(pad.attributes), name=pad.name))
        count += 1
    sweep(graph)
    return count


def _requantize(graph: ir.Graph, quantize: ir.Node, value: ir.Value) -> ir.Value:
    """A copy of `quantize` that reads `value`."""
    copy = ir.node(
        "QuantizeLinear", [value, *quantize.inputs[1:]], attributes=dict(quantize.attributes), name=f"{quantize.name}_early"
    )
    copy.outputs[0].name = f"{quantize.outputs[0].name}_early"
    copy.outputs[0].shape, copy.outputs[0].type = quantize.outputs[0].shape, quantize.outputs[0].type
    graph.insert_before(quantize, copy)
    return copy.outputs[0]


def _steps_of(graph: ir.Graph, real: float | ir.Value, quantize: ir.Node, name: str) -> ir.Value:
    """A real number as a constant of the type that `quantize` gives."""
    number = real if isinstance(real, float) else float(_constant(real))
    zero = _constant(quantize.inputs[2])
    limits = np.iinfo(zero.dtype)
    steps = np.rint(np.float32(number) / _constant(quantize.inputs[1])) + zero.astype(np.float32)
    return _initializer(graph, name, np.clip(steps, limits.min, limits.max).astype(zero.dtype).reshape(()))


def _same_parameters(a: ir.Node, b: ir.Node) -> bool:
    """Scale and zero point of two QuantizeLinear or DequantizeLinear nodes agree."""
    return all(np.array_equal(_constant(a.inputs[i]), _constant(b.inputs[i])) for i in (1, 2))


def strip_edges(graph: ir.Graph) -> int:
    """Input that feeds one Q, outputs that come from a DQ -> integer tensors; returns how many edges were stripped."""
    count = 0
    for value in graph.inputs:
        readers = [use.node for use in value.uses()]
        if len(readers) != 1 or readers[0].op_type != "QuantizeLinear":
            continue
        quantize = readers[0]
        value.dtype = _integer_type(quantize)
        ir.convenience.replace_all_uses_with(quantize.outputs[0], value)
        graph.remove(quantize, safe=True)
        count += 1
    for index, value in enumerate(graph.outputs):
        dequantize = _producer(value)
        if not _is(dequantize, "DequantizeLinear"):
            continue
        name, integer = value.name, dequantize.inputs[0]
        value.name = f"{name}_float"
        integer.name, integer.dtype = name, _integer_type(dequantize)
        integer.shape = value.shape
        graph.outputs[index] = integer
        count += 1
    sweep(graph)
    return count


def _integer_type(node: ir.Node) -> ir.DataType:
    return ir.DataType.from_numpy(_constant(node.inputs[2]).dtype)


def _producer(value: ir.Value | None) -> ir.Node | None:
    return None if value is None else value.producer()


def _is(node: ir.Node | None, op_type: str) -> bool:
    return node is not None and node.op_type == op_type


def _constant(value: ir.Value) -> np.ndarray:
    tensor = ir.convenience.get_const_tensor(value)
    if tensor is None:
        raise ValueError(f"{value.name} is not a constant")
    return tensor.numpy()


def _initializer(graph: ir.Graph, name: str, array: np.ndarray) -> ir.Value:
    array = np.asarray(array)
    tensor = ir.tensor(array, name=name)
    value = ir.Value(name=name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)
    graph.register_initializer(value)
    return value


def _substitute(graph: ir.Graph, old: ir.Node, new: ir.Node) -> None:
    new.outputs[0].name, new.outputs[0].shape, new.outputs[0].type = (
        old.outputs[0].name,
        old.outputs[0].shape,
        old.outputs[0].type,
    )
    ir.convenience.replace_nodes_and_values(graph, old, [old], [new], [old.outputs[0]], [new.outputs[0]])


def sweep(graph: ir.Graph) -> None:
    """Remove nodes and initializers that nothing reads."""
    outputs = {id(v) for v in graph.outputs}
    for node in reversed(graph):
        if all(not v.uses() and id(v) not in outputs for v in node.outputs):
            graph.remove(node, safe=True)
    for name in [n for n, v in graph.initializers.items() if not v.uses() and id(v) not in outputs]:
        del graph.initializers[name]

"""Rewrites of a converted PT2E graph, so that all backends derive the same integers from it.

They work in place, on a graph of `quantize_per_tensor`, ATen operators and `dequantize_per_*`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import fx

from edgekit.build.graph import attribute
from edgekit.build.quantizer import CLAMPS, LINEARS, PADS, SAME_SCALE
from edgekit.spec.errors import GoalError

# Importing it registers the operators of a converted graph.
import torchao.quantization.pt2e.quantize_pt2e  # noqa: F401  isort:skip

__all__ = ["Edge", "canonical_biases", "canonical_weights", "clamp_bounds", "drop_implied_clamps", "edges", "integer_edges"]

aten = torch.ops.aten
decomposed = torch.ops.quantized_decomposed
QUANTIZE = decomposed.quantize_per_tensor.default
QUANTIZE_CHANNELS = decomposed.quantize_per_channel.default
DEQUANTIZE = decomposed.dequantize_per_tensor.default
DEQUANTIZE_CHANNELS = decomposed.dequantize_per_channel.default
INT32_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Edge:
    """Scale and zero point of an int8 input or output."""

    scale: float
    zero_point: int


def clamp_bounds(node: fx.Node) -> tuple[float, float]:
    """Lower and upper bound of a clamp, ReLU, ReLU6 or hardtanh node."""
    infinity = float("inf")
    if node.target in (aten.relu.default, aten.relu_.default):
        return 0.0, infinity
    if node.target is aten.relu6.default:
        return 0.0, 6.0
    hardtanh = node.target in (aten.hardtanh.default, aten.hardtanh_.default)
    low, high = [*node.args[1:], None, None][:2]
    default = (-1.0, 1.0) if hardtanh else (-infinity, infinity)
    return default[0] if low is None else float(low), default[1] if high is None else float(high)


def drop_implied_clamps(graph: fx.GraphModule) -> int:
    """`quantize(clamp(x))` -> `quantize(x)` where saturation clamps to the same integers; returns how many.

    A quantized value lies in [(low - zero_point) scale, (high - zero_point) scale]; if that is inside the clamp's bounds up to
    half a step, no integer changes. Every backend then sees convolution and quantize side by side and needs no fusion of its own.
    """
    dropped = 0
    for node in list(graph.graph.nodes):
        if node.op == "call_function" and node.target in CLAMPS and _implied(node):
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)
            dropped += 1
    graph.recompile()
    return dropped


def _implied(node: fx.Node) -> bool:
    low, high = clamp_bounds(node)
    for user in node.users:
        if user.target is not QUANTIZE:
            return False
        _, scale, zero_point, least, most = user.args[:5]
        if (least - zero_point) * scale < low - scale / 2 or (most - zero_point) * scale > high + scale / 2:
            return False
    return bool(node.users)


def canonical_weights(graph: fx.GraphModule) -> int:
    """Put the float constants of an unfolded graph on their own grid; returns how many.

    `quantize(w)` -> `quantize(scale * integer)`. A converter that folds the quantize operator divides by the scale where PyTorch
    multiplies by its inverse; a weight near the middle of two integers then comes out one step apart, and a channel with it.
    """
    count = 0
    for node in graph.graph.nodes:
        if node.target not in (QUANTIZE, QUANTIZE_CHANNELS) or node.args[0].op != "get_attr":
            continue
        arguments = [attribute(graph, a.target) if isinstance(a, fx.Node) else a for a in node.args]
        integers = node.target(*arguments)
        back = decomposed.dequantize_per_channel if node.target is QUANTIZE_CHANNELS else decomposed.dequantize_per_tensor
        arguments[0].data = back.default(integers, *arguments[1:]).to(arguments[0].dtype)
        count += 1
    return count


def canonical_biases(graph: fx.GraphModule, copies: Sequence[fx.GraphModule] = ()) -> int:
    """Round every bias to the grid of scale_x * scale_w, in `graph` and its `copies`; returns how many.

    Backends derive int32 biases as round(bias / (scale_x * scale_w)), some in float32, some in float64. On the grid the
    quotient is an integer already, so all find the same one. Without this 30 % of the outputs of a deep network differ by a step.

    Raises:
        GoalError: `bias-overflow`; a bias does not fit into int32.
    """
    count = 0
    for node in graph.graph.nodes:
        if node.op != "call_function" or node.target not in LINEARS or len(node.args) < 3 or node.args[2] is None:
            continue
        scale = _product_scale(graph, node)
        if scale is None:
            continue
        bias = attribute(graph, node.args[2].target)
        steps = (bias.double() / scale).round()
        largest = float(steps.abs().max())
        if largest > INT32_LIMIT:
            raise GoalError(
                f"the bias of {node.name} needs {largest:.3g} steps, more than int32 holds",
                where=node.name,
                fix="calibrate on photos like those it will see, or retrain the layer with weight decay",
                code="bias-overflow",
            )
        rounded = (steps * scale).to(bias.dtype)
        for owner in (graph, *copies):
            attribute(owner, node.args[2].target).data = rounded.clone()
        count += 1
    return count


def _product_scale(graph: fx.GraphModule, node: fx.Node) -> torch.Tensor | None:
    """scale_x * scale_w as (channels,) float64; None if the operator is not fully quantized."""
    x = node.args[0]
    while x.target in PADS or x.target in SAME_SCALE:
        x = x.args[0]
    weight = node.args[1]
    if x.target is not DEQUANTIZE or weight.target is not DEQUANTIZE_CHANNELS:
        return None
    return float(x.args[1]) * attribute(graph, weight.args[1].target).double()


def edges(graph: fx.GraphModule) -> tuple[Edge, tuple[Edge, ...]]:
    """The quantization of the input and of every output.

    Raises:
        GoalError: `float-edge`; the first or last operator stayed float.
    """
    entry, *others = _input(graph).users
    for reader in (entry, *others):
        if reader.target is not QUANTIZE or reader.args[1:] != entry.args[1:]:
            raise _float_edge("the input", reader)
    outs = []
    for value in _outputs(graph):
        if value.target is not DEQUANTIZE:
            raise _float_edge("the output", value)
        outs.append(Edge(float(value.args[1]), int(value.args[2])))
    return Edge(float(entry.args[1]), int(entry.args[2])), tuple(outs)


def integer_edges(graph: fx.GraphModule) -> None:
    """`x float -> quantize -> ... -> dequantize -> output` -> `x int8 -> ... -> output int8`, in place.

    Pixels reach int8 through the bundle's table, so the payload needs no quantize operator and every engine sees the same
    integers.
    """
    edges(graph)
    x = _input(graph)
    for entry in list(x.users):
        entry.replace_all_uses_with(x)
        graph.graph.erase_node(entry)
    end = next(iter(graph.graph.find_nodes(op="output")))
    end.args = (tuple(value.args[0] for value in _outputs(graph)),)
    graph.graph.set_codegen(fx.graph.CodeGen())
    graph.graph.eliminate_dead_code()
    graph.recompile()


def _input(graph: fx.GraphModule) -> fx.Node:
    return next(iter(graph.graph.find_nodes(op="placeholder")))


def _outputs(graph: fx.GraphModule) -> tuple[fx.Node, ...]:
    values = next(iter(graph.graph.find_nodes(op="output"))).args[0]
    return tuple(values) if isinstance(values, tuple | list) else (values,)


def _float_edge(side: str, node: fx.Node) -> GoalError:
    return GoalError(
        f"{side} of the network stays float: {node.target} has no integer kernel on all engines",
        where=node.name,
        fix="build with --precision fp16, or end the network in a linear or pooling layer",
        code="float-edge",
    )

"""Rewrites to forms for which every engine has a kernel, each documented as before -> after. They change no value.

Like those of `graph.py` they work in place on a graph of ATen operators, before quantization. `common_forms` suits every
precision, `integer_forms` holds what only integer kernels ask for.
"""

import math
from collections.abc import Callable

import torch
from torch import fx

from edgekit.build.graph import attribute, set_attribute
from edgekit.build.integer import clamp_bounds
from edgekit.build.quantizer import CLAMPS, ELEMENTWISE, LINEARS

__all__ = [
    "adaptive_pools_as_pools",
    "clamps_first",
    "common_forms",
    "integer_forms",
    "means_keep_axes",
    "norms_as_convolutions",
    "plain_clamps",
    "pools_as_convolutions",
    "scalars_as_tensors",
    "splits_as_slices",
]

aten = torch.ops.aten
SPLITS = (aten.chunk.default, aten.split.Tensor, aten.split.sizes, aten.split_with_sizes.default)
MOVES = (aten.max_pool2d.default, aten.flatten.using_ints, aten.view.default, aten.reshape.default, aten.permute.default)
"""Operators that commute with a clamp: they only move values, or pick the largest of some."""

SCALAR_FORMS: dict[torch._ops.OpOverload, tuple[torch._ops.OpOverload, Callable[[float], float]]] = {
    aten.add.Tensor: (aten.add.Tensor, lambda c: c),
    aten.add_.Tensor: (aten.add.Tensor, lambda c: c),
    aten.sub.Tensor: (aten.add.Tensor, lambda c: -c),
    aten.sub_.Tensor: (aten.add.Tensor, lambda c: -c),
    aten.mul.Tensor: (aten.mul.Tensor, lambda c: c),
    aten.mul_.Tensor: (aten.mul.Tensor, lambda c: c),
    aten.div.Tensor: (aten.mul.Tensor, lambda c: 1 / c),
    aten.div_.Tensor: (aten.mul.Tensor, lambda c: 1 / c),
}
"""Operator with a scalar -> operator with a tensor, and what becomes of the scalar."""


def common_forms(graph: fx.GraphModule) -> int:
    """All rewrites that help float and integer payloads; returns how many applied."""
    return plain_clamps(graph) + means_keep_axes(graph) + splits_as_slices(graph) + norms_as_convolutions(graph)


def integer_forms(graph: fx.GraphModule) -> int:
    """`common_forms` and those that only integer payloads need; returns how many applied."""
    count = common_forms(graph) + scalars_as_tensors(graph) + adaptive_pools_as_pools(graph)
    return count + pools_as_convolutions(graph) + clamps_first(graph)


def plain_clamps(graph: fx.GraphModule) -> int:
    """`clamp(x, low, high)` -> `hardtanh(x, low, high)`, or `relu(x)`: the two that ExecuTorch fuses into the layer in front."""
    count = 0
    for node in _calls(graph, (aten.clamp_min.default, aten.clamp.default)):
        low, high = clamp_bounds(node)
        relu = (low, high) == (0.0, math.inf)
        new = (aten.relu.default, ()) if relu else (aten.hardtanh.default, (low, high))
        _replace(graph, node, _call(graph, node, new[0], (node.args[0], *new[1])))
        count += 1
    return _finish(graph, count)


def means_keep_axes(graph: fx.GraphModule) -> int:
    """`mean(x, (2, 3))` -> `flatten(mean(x, (2, 3), keepdim), 1)`: engines have a kernel for pooling, not for any mean."""
    count = 0
    for node in _calls(graph, (aten.mean.dim,)):
        x, axes = node.args[:2]
        rank = _value(x).dim()
        keeps = len(node.args) > 2 and node.args[2]
        if keeps or rank != 4 or sorted(axis % rank for axis in axes) != [2, 3] or "dtype" in node.kwargs:
            continue
        kept = _call(graph, node, aten.mean.dim, (x, [2, 3], True))
        kept.meta["val"] = _value(node)[:, :, None, None]
        _replace(graph, node, _call(graph, node, aten.flatten.using_ints, (kept, 1)))
        count += 1
    return _finish(graph, count)


def splits_as_slices(graph: fx.GraphModule) -> int:
    """`chunk(x, n)[i]` or `split(x, sizes)[i]` -> `slice(x, start, end)`, which keeps the scale of x and has one result."""
    count = 0
    for node in _calls(graph, SPLITS):
        if any(user.target.__name__ != "getitem" for user in node.users):
            continue
        parts = _value(node)
        axis = node.args[2] if len(node.args) > 2 else node.kwargs.get("dim", 0)
        ends = [0]
        for part in parts:
            ends.append(ends[-1] + int(part.shape[axis]))
        for user in list(node.users):
            index = user.args[1] % len(parts)
            _replace(graph, user, _call(graph, user, aten.slice.Tensor, (node.args[0], axis, ends[index], ends[index + 1])))
        graph.graph.erase_node(node)
        count += 1
    return _finish(graph, count)


def norms_as_convolutions(graph: fx.GraphModule) -> int:
    """`batch_norm(x)` that no convolution could absorb -> a depthwise 1x1 convolution, which absorbs the next activation."""
    count = 0
    for node in _calls(graph, (aten.batch_norm.default,)):
        if _value(node).dim() != 4 or node.args[5]:
            continue
        gamma, beta, mean, var = (None if a is None else attribute(graph, a.target).detach() for a in node.args[1:5])
        factor = torch.rsqrt(var + node.args[7])
        factor = factor if gamma is None else factor * gamma
        offset = -mean * factor if beta is None else beta - mean * factor
        _replace(graph, node, _depthwise(graph, node, factor.reshape(-1, 1, 1, 1), offset, geometry=([1, 1], [0, 0])))
        count += 1
    return _finish(graph, count)


def adaptive_pools_as_pools(graph: fx.GraphModule) -> int:
    """`adaptive_avg_pool2d(x, n)` -> `avg_pool2d(x, size / n)` where n divides the size; to one value it stays as it is."""
    count = 0
    for node in _calls(graph, (aten.adaptive_avg_pool2d.default,)):
        x, wanted = node.args
        sizes = [int(side) for side in _value(x).shape[2:]]
        if tuple(wanted) == (1, 1) or any(side % n for side, n in zip(sizes, wanted, strict=True)):
            continue
        kernel = [side // n for side, n in zip(sizes, wanted, strict=True)]
        _replace(graph, node, x if kernel == [1, 1] else _call(graph, node, aten.avg_pool2d.default, (x, kernel)))
        count += 1
    return _finish(graph, count)


def pools_as_convolutions(graph: fx.GraphModule) -> int:
    """`avg_pool2d(x, k)` -> a depthwise convolution with weights 1 / (k k), which int8 holds exactly; over all of x a mean.

    LiteRT's delegate and, with padding, ExecuTorch's have no integer kernel for average pooling.
    """
    count = 0
    for node in _calls(graph, (aten.avg_pool2d.default,)):
        x, kernel, stride, padding, ceil, padded, divisor = [*node.args, *(None,) * 7][:7]
        kernel, padding = _pair(kernel), _pair(padding or 0)
        # PyTorch counts the padding in by default; without it, the weights at the rim would differ.
        if ceil or divisor or (any(padding) and padded is False):
            continue
        channels, *sizes = (int(side) for side in _value(x).shape[1:])
        if kernel == sizes and not any(padding):
            _replace(graph, node, _call(graph, node, aten.mean.dim, (x, [2, 3], True)))
            count += 1
            continue
        weight = torch.full((channels, 1, *kernel), 1 / (kernel[0] * kernel[1]))
        geometry = (_pair(stride) if stride else kernel, padding)
        _replace(graph, node, _depthwise(graph, node, weight, torch.zeros(channels), geometry=geometry))
        count += 1
    return _finish(graph, count)


def scalars_as_tensors(graph: fx.GraphModule) -> int:
    """`x + 0.5`, `x - 0.5`, `x * 2`, `x / 2` -> `add` or `mul` with a constant tensor, quantized like any other operand."""
    count = 0
    for node in _calls(graph, tuple(SCALAR_FORMS)):
        x, scalar = node.args[:2]
        if not isinstance(x, fx.Node) or not isinstance(scalar, int | float) or "alpha" in node.kwargs:
            continue
        operator, convert = SCALAR_FORMS[node.target]
        if scalar == 0 and node.target in (aten.div.Tensor, aten.div_.Tensor):
            continue
        shape = (1,) * _value(node).dim()
        constant = set_attribute(graph, f"{node.name}_constant", torch.full(shape, convert(float(scalar))), before=node)
        _replace(graph, node, _call(graph, node, operator, (x, constant)))
        count += 1
    return _finish(graph, count)


def clamps_first(graph: fx.GraphModule) -> int:
    """`relu(max_pool(conv(x)))` -> `max_pool(relu(conv(x)))`: next to the convolution the clamp costs nothing.

    Holds for every clamp and every operator that moves or picks values, if nobody else reads in between.
    """
    count = 0
    for node in _calls(graph, CLAMPS):
        moves = _moves_before(node)
        source = moves[-1].args[0] if moves else node
        if not moves or len(source.users) > 1 or source.target not in (*LINEARS, *ELEMENTWISE):
            continue
        node.replace_all_uses_with(moves[0])
        source.replace_all_uses_with(node)
        node.args = (source, *node.args[1:])
        node.meta["val"] = _value(source)
        source.append(node)
        count += 1
    return _finish(graph, count)


def _moves_before(node: fx.Node) -> list[fx.Node]:
    """The operators between a clamp and the one that computes, nearest first, as far as each has one reader."""
    moves: list[fx.Node] = []
    x = node.args[0]
    while isinstance(x, fx.Node) and x.target in MOVES and len(x.users) == 1:
        moves.append(x)
        x = x.args[0]
    return moves


def _depthwise(
    graph: fx.GraphModule, node: fx.Node, weight: torch.Tensor, bias: torch.Tensor, *, geometry: tuple[list[int], list[int]]
) -> fx.Node:
    weights = set_attribute(graph, f"{node.name}_weight", weight, before=node)
    biases = set_attribute(graph, f"{node.name}_bias", bias, before=node)
    stride, padding = geometry
    return _call(graph, node, aten.conv2d.default, (node.args[0], weights, biases, stride, padding, [1, 1], weight.shape[0]))


def _calls(graph: fx.GraphModule, operators: tuple[torch._ops.OpOverload, ...]) -> list[fx.Node]:
    return [n for n in graph.graph.nodes if n.op == "call_function" and n.target in operators]


def _value(node: fx.Node) -> torch.Tensor:
    value: torch.Tensor = node.meta["val"]
    return value


def _pair(sizes: int | list[int]) -> list[int]:
    both = [sizes] if isinstance(sizes, int) else list(sizes)
    return both * 2 if len(both) == 1 else both


def _call(graph: fx.GraphModule, old: fx.Node, operator: torch._ops.OpOverload, args: tuple[fx.node.Argument, ...]) -> fx.Node:
    with graph.graph.inserting_before(old):
        new = graph.graph.call_function(operator, args)
    new.meta["val"] = _value(old)
    return new


def _replace(graph: fx.GraphModule, old: fx.Node, new: fx.Node) -> None:
    old.replace_all_uses_with(new)
    graph.graph.erase_node(old)


def _finish(graph: fx.GraphModule, count: int) -> int:
    graph.graph.eliminate_dead_code()
    graph.graph.lint()
    graph.recompile()
    return count

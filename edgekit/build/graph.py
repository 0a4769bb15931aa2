"""Rewrites of an exported graph that every backend profits from. Each is documented as before -> after.

They work in place on the `GraphModule` of `torch.export.export(...).module()`, on ATen operators, before quantization.
"""

import math

import torch
from torch import fx
from torch.nn.utils.fusion import fuse_conv_bn_weights

__all__ = ["attribute", "fold_batch_norm", "rewrite_hard_activations", "set_attribute"]

aten = torch.ops.aten
CONVOLUTIONS = (aten.conv2d.default, aten.conv1d.default)
LINEARS = (*CONVOLUTIONS, aten.linear.default)
HARD_SWISH = (aten.hardswish.default, aten.hardswish_.default)
HARD_SIGMOID = (aten.hardsigmoid.default, aten.hardsigmoid_.default)


def attribute(module: torch.nn.Module, target: str) -> torch.Tensor:
    """The tensor behind a `get_attr` target such as `blocks.0.weight`."""
    owner: object = module
    for part in target.split("."):
        owner = getattr(owner, part)
    if not isinstance(owner, torch.Tensor):
        raise TypeError(f"{target} is a {type(owner).__name__}, not a tensor")
    return owner


def set_attribute(graph: fx.GraphModule, name: str, value: torch.Tensor, *, before: fx.Node) -> fx.Node:
    """Register `value` as a new buffer and return a `get_attr` node for it, placed ahead of `before`."""
    free = name.replace(".", "_")
    while hasattr(graph, free):
        free += "_"
    graph.register_buffer(free, value.detach().clone())  # a leaf, so that the graph can be copied
    with graph.graph.inserting_before(before):
        node = graph.graph.get_attr(free)
    node.meta["val"] = value
    return node


def fold_batch_norm(graph: fx.GraphModule) -> int:
    """`batch_norm(conv(x, w, b))` -> `conv(x, w', b')`; returns how many were folded.

    Only where the convolution has no other reader. Source: Jacob et al., CVPR 2018, section 3.2.
    """
    folded = 0
    for node in list(graph.graph.nodes):
        if node.op != "call_function" or node.target is not aten.batch_norm.default:
            continue
        conv = node.args[0]
        if conv.target not in CONVOLUTIONS or len(conv.users) != 1:
            continue
        gamma, beta, mean, var = (None if a is None else attribute(graph, a.target) for a in node.args[1:5])
        weight = attribute(graph, conv.args[1].target)
        has_bias = len(conv.args) > 2 and conv.args[2] is not None
        bias = attribute(graph, conv.args[2].target) if has_bias else None
        weight, bias = fuse_conv_bn_weights(weight, bias, mean, var, node.args[7], gamma, beta)
        _set_weights(graph, conv, weight.detach(), bias.detach())
        node.replace_all_uses_with(conv)
        graph.graph.erase_node(node)
        folded += 1
    _finish(graph)
    return folded


def rewrite_hard_activations(graph: fx.GraphModule) -> int:
    """Hard-swish and hard-sigmoid -> add, clamp and mul, which all engines run on integers; returns how many.

    With u = conv(x, w / sqrt(6), b / sqrt(6)):
        `hardswish(conv(x, w, b))`   -> `u * clamp(u + sqrt(1.5), 0, sqrt(6))`
        `hardsigmoid(conv(x, w, b))` -> `clamp(conv(x, w / 6, b / 6 + 0.5), 0, 1)`
    since v * clamp(v + 3, 0, 6) / 6 with v = sqrt(6) u. The clamp disappears into the quantization range, so hard-swish costs one
    integer add and one integer multiply, hard-sigmoid nothing. Elsewhere the factor becomes a multiply of its own.
    """
    count = 0
    for node in list(graph.graph.nodes):
        if node.op != "call_function":
            continue
        if node.target in HARD_SWISH:
            _replace(graph, node, _hard_swish(graph, node))
            count += 1
        elif node.target in HARD_SIGMOID:
            _replace(graph, node, _hard_sigmoid(graph, node))
            count += 1
    _finish(graph)
    return count


def _hard_swish(graph: fx.GraphModule, node: fx.Node) -> fx.Node:
    root = math.sqrt(6.0)
    u = _scaled(graph, node.args[0], node, factor=1 / root, shift=0.0)
    three = set_attribute(graph, f"{node.name}_three", torch.full((1,) * node.meta["val"].dim(), math.sqrt(1.5)), before=node)
    moved = _call(graph, node, aten.add.Tensor, (u, three))
    gate = _call(graph, node, aten.hardtanh.default, (moved, 0.0, root))
    return _call(graph, node, aten.mul.Tensor, (u, gate))


def _hard_sigmoid(graph: fx.GraphModule, node: fx.Node) -> fx.Node:
    moved = _scaled(graph, node.args[0], node, factor=1 / 6, shift=0.5)
    return _call(graph, node, aten.hardtanh.default, (moved, 0.0, 1.0))


def _scaled(graph: fx.GraphModule, x: fx.Node, node: fx.Node, *, factor: float, shift: float) -> fx.Node:
    """`x * factor + shift`, folded into the convolution or linear that makes x when nobody else reads it."""
    if x.target in LINEARS and len(x.users) == 1:
        weight = attribute(graph, x.args[1].target)
        has_bias = len(x.args) > 2 and x.args[2] is not None
        bias = attribute(graph, x.args[2].target) if has_bias else torch.zeros(weight.shape[0])
        _set_weights(graph, x, weight * factor, bias * factor + shift)
        return x
    shape = (1,) * node.meta["val"].dim()
    scale = set_attribute(graph, f"{node.name}_factor", torch.full(shape, factor), before=node)
    x = _call(graph, node, aten.mul.Tensor, (x, scale))
    if shift:
        offset = set_attribute(graph, f"{node.name}_shift", torch.full(shape, shift), before=node)
        x = _call(graph, node, aten.add.Tensor, (x, offset))
    return x


def _call(graph: fx.GraphModule, old: fx.Node, operator: torch._ops.OpOverload, args: tuple[fx.node.Argument, ...]) -> fx.Node:
    """A new call ahead of `old`, with the shape of its result: the quantizer skips nodes whose `val` is unknown."""
    with graph.graph.inserting_before(old):
        new = graph.graph.call_function(operator, args)
    new.meta["val"] = old.meta["val"]
    return new


def _set_weights(graph: fx.GraphModule, conv: fx.Node, weight: torch.Tensor, bias: torch.Tensor) -> None:
    """Give a convolution or linear weights of its own: a shared weight of another node stays as it was."""
    args = list(conv.args)
    args += [None] * (3 - len(args))
    args[1] = set_attribute(graph, f"{conv.name}_weight", weight.contiguous(), before=conv)
    args[2] = set_attribute(graph, f"{conv.name}_bias", bias.contiguous(), before=conv)
    conv.args = tuple(args)


def _replace(graph: fx.GraphModule, old: fx.Node, new: fx.Node) -> None:
    old.replace_all_uses_with(new)
    graph.graph.erase_node(old)


def _finish(graph: fx.GraphModule) -> None:
    graph.graph.eliminate_dead_code()
    graph.delete_all_unused_submodules()
    graph.recompile()

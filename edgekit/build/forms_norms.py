"""Forms of layer norms, each documented as before -> after. They work in place, like those of `forms.py`."""

import torch
from torch import fx

from edgekit.build.graph import attribute, set_attribute

__all__ = ["fold_norms", "norms_as_products"]

aten = torch.ops.aten


def fold_norms(graph: fx.GraphModule) -> int:
    """`linear(norm(x) * gamma + beta, W, b)` -> `linear(norm(x), W * gamma, b + W beta)`; returns how many norms.

    Only where all readers are linear layers with weights of their own. LiteRT's converter folds on its own; a weight that was
    rounded before is then no longer on its grid. Computed in float64.
    """
    count = 0
    for node in graph.graph.find_nodes(op="call_function", target=aten.layer_norm.default):
        x, shape, gamma, beta, *rest = [*node.args, None, None][: max(4, len(node.args))]
        readers = list(node.users)
        layers = all(r.target is aten.linear.default and r.args[0] is node and r.args[1].op == "get_attr" for r in readers)
        if len(shape) != 1 or (gamma is None and beta is None) or not readers or not layers:
            continue
        for reader in readers:
            _fold(graph, reader, gamma, beta)
        node.args = (x, shape, None, None, *rest)
        count += 1
    return _finish(graph, count)


def _fold(graph: fx.GraphModule, layer: fx.Node, gamma: fx.Node | None, beta: fx.Node | None) -> None:
    weight = attribute(graph, layer.args[1].target).double()
    has_bias = len(layer.args) > 2 and layer.args[2] is not None
    bias = attribute(graph, layer.args[2].target).double() if has_bias else torch.zeros(len(weight), dtype=torch.float64)
    if beta is not None:
        bias = bias + weight @ attribute(graph, beta.target).double()
    if gamma is not None:
        weight = weight * attribute(graph, gamma.target).double()
    folded = [set_attribute(graph, f"{layer.name}_{part}", v.float(), before=layer) for part, v in (("w", weight), ("b", bias))]
    for node in folded:
        # A buffer that nobody reads any more stays in a `.pte`, a parameter does not.
        value = getattr(graph, node.target)
        delattr(graph, node.target)
        graph.register_parameter(node.target, torch.nn.Parameter(value, requires_grad=False))
    layer.args = (layer.args[0], *folded)


def norms_as_products(graph: fx.GraphModule) -> int:
    """`norm(x)` of (n, d) -> `c * rsqrt(mean(c * c) + epsilon)`, `c = x - mean(x)`, a mean being a linear layer of one row.

    XNNPACK has neither layer norm nor a mean over the last axis of a matrix; each would end one delegate call and begin another.
    """
    count = 0
    for node in graph.graph.find_nodes(op="call_function", target=aten.layer_norm.default):
        x, shape, gamma, beta, epsilon, *_ = [*node.args, *(None, None, 1e-5)[len(node.args) - 2 :]]
        if len(shape) != 1 or node.meta["val"].dim() != 2:
            continue
        row = set_attribute(graph, f"{node.name}_row", torch.full((1, shape[0]), 1 / shape[0]), before=node)
        small = set_attribute(graph, f"{node.name}_epsilon", torch.full((1, 1), float(epsilon)), before=node)
        with graph.graph.inserting_before(node):
            call = graph.graph.call_function
            centred = call(aten.sub.Tensor, (x, call(aten.linear.default, (x, row))))
            variance = call(aten.linear.default, (call(aten.mul.Tensor, (centred, centred)), row))
            result = call(aten.mul.Tensor, (centred, call(aten.rsqrt.default, (call(aten.add.Tensor, (variance, small)),))))
            if gamma is not None:
                result = call(aten.mul.Tensor, (result, gamma))
            if beta is not None:
                result = call(aten.add.Tensor, (result, beta))
        node.replace_all_uses_with(result)
        graph.graph.erase_node(node)
        count += 1
    return _finish(graph, count)


def _finish(graph: fx.GraphModule, count: int) -> int:
    if count:
        graph.graph.eliminate_dead_code()
        graph.graph.lint()
        graph.recompile()
    return count

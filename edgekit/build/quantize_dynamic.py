"""Dynamic INT8 of networks that read images: int8 weights of linear layers, activations rounded at run time.

The rule: a network with attention - a softmax whose result is multiplied with an activation - is quantized dynamically, any
other statically. Products of two activations and softmax have no integer kernel in all engines, so a static graph would go to
and fro between float and integer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import fx, nn
from torch.export import ExportedProgram

from edgekit.build.forms_norms import fold_norms
from edgekit.build.graph import attribute
from edgekit.build.programs import graph_of, plain
from edgekit.build.text.integers import Grid, grid_of
from edgekit.spec.errors import UnknownName

__all__ = ["Dynamic", "folded", "grids", "has_attention", "layers", "linear_nodes", "quantize_dynamically"]

aten = torch.ops.aten
SOFTMAX = (aten.softmax.int, aten._softmax.default)
PRODUCTS = (aten.bmm.default, aten.matmul.default, aten.mm.default)
ATTENTION = (aten.scaled_dot_product_attention.default,)
MOVES = (aten.dropout.default, aten.reshape.default, aten.view.default, aten.permute.default, aten.transpose.int)


@dataclass(frozen=True, slots=True)
class Dynamic:
    """A network whose linear weights lie on their grids, so that every engine finds the same integers.

    Attributes:
        program: float (1, 3, h, w) -> float (1, classes), norms folded, weights rounded.
        float_layers: nodes of `program` that stay float.
    """

    program: ExportedProgram
    float_layers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Layers:
    """The linear layers of a graph, as the lowerings of `edgekit.build.text` ask for them."""

    named: Mapping[str, nn.Linear]

    def linears(self) -> Mapping[str, nn.Linear]:
        """By name, in order of execution."""
        return self.named


def has_attention(program: ExportedProgram) -> bool:
    """Whether a softmax is multiplied with an activation: such a network is quantized dynamically."""
    calls = [n for n in program.graph.nodes if n.op == "call_function"]
    if any(n.target in ATTENTION for n in calls):
        return True
    for node in calls:
        if node.target not in PRODUCTS:
            continue
        x = node.args[0]
        while x.target in MOVES:
            x = x.args[0]
        if x.target in SOFTMAX:
            return True
    return False


def quantize_dynamically(program: ExportedProgram, *, float_layers: Sequence[str] = ()) -> Dynamic:
    """Fold norms and round the weights of all linear layers, per row, to int8 grids.

    Args:
        program: (1, 3, h, w) float32 -> (1, classes) float32.
        float_layers: nodes of linear layers that stay float.

    Raises:
        UnknownName: no such linear layer.
    """
    graph = folded(program)
    nodes = linear_nodes(graph)
    for name in float_layers:
        if name not in {n.name for n in nodes}:
            raise UnknownName("linear layer", name, {n.name for n in nodes})
    kept = [i for i, node in enumerate(nodes) if node.name in float_layers]
    with torch.no_grad():
        for i, node in enumerate(nodes):
            if i not in kept:
                weight = attribute(graph, node.args[1].target)
                weight.copy_(torch.from_numpy(grid_of(weight).real()))
    args, _ = program.example_inputs
    rounded = torch.export.export(graph, tuple(args), strict=False)
    after = linear_nodes(rounded.module(check_guards=False))
    return Dynamic(rounded, tuple(after[i].name for i in kept))


def folded(program: ExportedProgram) -> fx.GraphModule:
    """The graph whose linear layers are rounded; `float_layers` are names of its nodes."""
    graph = graph_of(plain(program))
    fold_norms(graph)
    return graph


def layers(dynamic: Dynamic) -> Layers:
    """Linear layers of integer weights, by the name of their node."""
    graph = dynamic.program.module(check_guards=False)
    named = {}
    for node in linear_nodes(graph):
        if node.name not in dynamic.float_layers:
            weight = attribute(graph, node.args[1].target)
            linear = nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
            linear.weight = nn.Parameter(weight.detach(), requires_grad=False)
            named[node.name] = linear
    return Layers(named)


def grids(found: Layers) -> dict[str, Grid]:
    """The integers of each layer; a rounded weight is found again exactly."""
    return {name: grid_of(linear.weight) for name, linear in found.linears().items()}


def linear_nodes(graph: fx.GraphModule) -> list[fx.Node]:
    """Linear layers with a constant weight of more than one row, in order; a single row is a mean."""
    found = graph.graph.find_nodes(op="call_function", target=aten.linear.default)
    return [n for n in found if n.args[1].op == "get_attr" and attribute(graph, n.args[1].target).shape[0] > 1]

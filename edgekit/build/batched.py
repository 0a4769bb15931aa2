"""An exported graph as a module that can be trained: a program is exported for one photo, and refuses `train` and `eval`."""

from typing import Self

import torch
from torch import Tensor, fx, nn

from edgekit.build.graph import attribute
from edgekit.build.walk import linears

__all__ = ["Batched", "batchable", "expose_weights"]

aten = torch.ops.aten

ALIKE = 1e-3
"""Of the largest output: sums over a batch may run in another order."""


class Batched(nn.Module):
    """(n, 3, h, w) float32 -> (n, classes) float32 by a graph that was exported for one photo.

    All at once where the graph allows it, else one by one. The mode changes nothing: norms are folded, and what is left acts in
    training as it does on the device. Rounding to int8 does not survive bfloat16, so it always runs in float32.
    """

    def __init__(self, graph: fx.GraphModule, *, whole: bool) -> None:
        """`whole`: whether `graph` takes batches, see `batchable`."""
        super().__init__()
        self.graph, self.whole = graph, whole

    def train(self, mode: bool = True) -> Self:
        """Only remember the mode."""
        self.training = mode
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Run photos."""
        with torch.autocast(x.device.type, enabled=False):
            return self._run(x) if self.whole else torch.cat([self._run(photo) for photo in x.split(1)])

    def _run(self, x: Tensor) -> Tensor:
        out = self.graph(x)
        return out[0] if isinstance(out, tuple | list) else out


def batchable(graph: fx.GraphModule, example: Tensor) -> bool:
    """Whether a batch of two photos gives the same as one after the other; `example` is (1, 3, h, w)."""
    two = torch.randn(2, *example.shape[1:], generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        wanted = Batched(graph, whole=False)(two)
        try:
            found = Batched(graph, whole=True)(two)
        except (RuntimeError, ValueError):
            return False
    return found.shape == wanted.shape and bool((found - wanted).abs().max() <= ALIKE * wanted.abs().max())


def expose_weights(graph: fx.GraphModule) -> int:
    """Make weights and biases of layers parameters and everything else buffers, in place; returns how many parameters.

    Constants of rewritten activations stay as they are, and so do averages that were rewritten as convolutions. Weights that
    layers share stay shared.
    """
    trained = {node.target: attribute(graph, node.target) for node in _trained(graph)}
    made: dict[int, nn.Parameter] = {}
    for node in graph.graph.find_nodes(op="get_attr"):
        tensor = attribute(graph, node.target)
        path, _, name = node.target.rpartition(".")
        owner = graph.get_submodule(path)
        if node.target in trained:
            parameter = made.setdefault(id(trained[node.target]), nn.Parameter(tensor.detach().clone()))
            _drop(owner, name)
            owner.register_parameter(name, parameter)
        else:
            _drop(owner, name)
            owner.register_buffer(name, tensor.detach())
    return len(made)


def _drop(owner: nn.Module, name: str) -> None:
    if hasattr(owner, name):
        delattr(owner, name)


def _trained(graph: fx.GraphModule) -> list[fx.Node]:
    """Nodes that give weights and biases to layers, through the rounding in between."""
    found = []
    for layer in linears(graph):
        operands = [a for a in layer.args[1:3] if isinstance(a, fx.Node)]
        operands = [a.args[0] if a.op == "call_module" else a for a in operands]
        constants = [a for a in operands if a.op == "get_attr"]
        if constants and not _averages(attribute(graph, constants[0].target), layer):
            found += constants
    return found


def _averages(weight: Tensor, layer: fx.Node) -> bool:
    """Whether the layer is average pooling as a depthwise convolution, see `forms.pools_as_convolutions`."""
    depthwise = (
        layer.target is aten.conv2d.default and len(layer.args) > 6 and layer.args[6] == len(weight) and weight.shape[1] == 1
    )
    return depthwise and weight[0].numel() > 1 and bool((weight == 1 / weight[0].numel()).all())

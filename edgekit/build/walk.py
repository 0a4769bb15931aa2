"""Run a graph layer by layer: the caller sees every convolution and linear layer, and may go on with another output."""

from collections.abc import Generator
from typing import Any

import torch
from torch import fx

from edgekit.build.integer import DEQUANTIZE, DEQUANTIZE_CHANNELS, QUANTIZE
from edgekit.build.quantizer import LINEARS

__all__ = ["Layers", "Walk", "go_on", "linears"]

Layers = Generator[tuple[torch.Tensor, torch.Tensor], torch.Tensor, None]
"""Yields (input, output) of a layer, is sent the output to go on with."""


class Walk(fx.Interpreter):
    """A float or a converted graph, opened once for many photos.

    In a converted graph a quantize and a dequantize step become one fake quantization and weights are dequantized once: the same
    values in a fraction of the time.
    """

    def __init__(self, graph: fx.GraphModule) -> None:
        """Values are kept no longer than a later node reads them."""
        super().__init__(graph)
        self._weights: dict[fx.Node, torch.Tensor] = {}

    def layers(self, photo: torch.Tensor) -> Layers:
        """Run one photo (1, 3, h, w), stopping at each node of `linears`. Several may be under way at a time."""
        values: dict[fx.Node, Any] = {}
        for node in self.graph.nodes:
            self.env = values  # another photo's run may have moved on meanwhile
            value = photo if node.op == "placeholder" else self.run_node(node)
            if _is_linear(node):
                value = yield values[node.args[0]], value
            values[node] = value
            for done in self.user_to_last_uses.get(node, ()):
                del values[done]

    def run_node(self, n: fx.Node) -> Any:
        """Short cuts for the operators of a converted graph."""
        if n.target is QUANTIZE:
            x, scale, zero_point, least, most = n.args[:5]
            return torch.fake_quantize_per_tensor_affine(self.env[x], scale, zero_point, least, most)
        if n.target is DEQUANTIZE and n.args[0].target is QUANTIZE:
            return self.env[n.args[0]]
        if n.target is DEQUANTIZE_CHANNELS:
            if n not in self._weights:
                self._weights[n] = super().run_node(n)
            return self._weights[n]
        return super().run_node(n)


def go_on(run: Layers, output: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Send a layer's output: (input, output) of the next layer, or None after the last."""
    try:
        return run.send(output)
    except StopIteration:
        return None


def linears(graph: fx.GraphModule) -> tuple[fx.Node, ...]:
    """Convolutions and linear layers in the order they run, which the float and the converted graph of a network share."""
    return tuple(node for node in graph.graph.nodes if _is_linear(node))


def _is_linear(node: fx.Node) -> bool:
    return node.op == "call_function" and node.target in LINEARS

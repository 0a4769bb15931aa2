"""Which channels of which tensors must be scaled together, so that a network computes the same as before.

An operator that commutes with a positive factor a channel ties the channels of its result to those of its inputs: relu, pooling,
addition, concatenation. A convolution or linear layer ends a tie on both sides: its weight columns take a factor of its input
back, its rows make the factor of its output. Everything else fixes the channels that it touches: they may not be scaled.

Fixed are: the network's input and output, operands of an addition of a constant, what a bounded clamp (relu6) or any curved
activation reads and makes, gates (but not what they gate), layers that share their weights. Relu6 stays fixed even where no photo
reaches its bound, since another photo may.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import fx

from edgekit.build.graph import attribute
from edgekit.build.integer import clamp_bounds
from edgekit.build.quantizer import CLAMPS, LINEARS, PADS, is_answer

__all__ = ["Layer", "Ties", "find_ties"]

aten = torch.ops.aten
SAME = (
    aten.leaky_relu.default,
    aten.leaky_relu_.default,
    aten.max_pool2d.default,
    aten.avg_pool2d.default,
    aten.adaptive_avg_pool2d.default,
    aten.upsample_nearest2d.vec,
    aten.upsample_bilinear2d.vec,
    aten.dropout.default,
    aten.dropout_.default,
    aten.contiguous.default,
    aten.clone.default,
)
MOVES = (
    aten.flatten.using_ints,
    aten.view.default,
    aten.reshape.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.unsqueeze.default,
)
SUMS = (aten.add.Tensor, aten.add_.Tensor, aten.sub.Tensor, aten.sub_.Tensor)
PRODUCTS = (aten.mul.Tensor, aten.mul_.Tensor)


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A convolution or linear layer whose weights may be scaled.

    Attributes:
        node: of the graph.
        groups: of the convolution; 1 for a linear layer.
        inputs: (in,) tie of each input channel.
        outputs: (out,) tie of each output channel.
    """

    node: fx.Node
    groups: int
    inputs: np.ndarray
    outputs: np.ndarray

    @property
    def columns(self) -> np.ndarray:
        """(out, in / groups): tie of the channel that each weight is multiplied with."""
        by_group = self.inputs.reshape(self.groups, -1)
        return np.repeat(by_group, len(self.outputs) // self.groups, axis=0)


@dataclass(frozen=True, slots=True, eq=False)
class Ties:
    """Channels of a graph, numbered so that those that are scaled together have one number.

    Attributes:
        fixed: (ties,) bool; whether it may not be scaled.
        tensors: each activation tensor and the (channels,) ties of its channels.
        layers: in the order they run.
    """

    fixed: np.ndarray
    tensors: tuple[tuple[fx.Node, np.ndarray], ...]
    layers: tuple[Layer, ...]


def find_ties(graph: fx.GraphModule) -> Ties:
    """The ties of a float graph with batch norms folded. Channels lie along axis 1; shapes are in `meta["val"]`."""
    scan = _Scan(graph)
    for node in graph.graph.nodes:
        scan.visit(node)
    return scan.ties()


class _Channels:
    """Disjoint sets of channels."""

    def __init__(self) -> None:
        self.parent: list[int] = []
        self.fixed: set[int] = set()

    def new(self, count: int) -> np.ndarray:
        first = len(self.parent)
        self.parent += range(first, first + count)
        return np.arange(first, first + count)

    def tie(self, a: np.ndarray, b: np.ndarray) -> None:
        for x, y in zip(a, b, strict=True):
            self.parent[self.find(int(x))] = self.find(int(y))

    def find(self, x: int) -> int:
        while self.parent[x] != x:
            self.parent[x] = self.parent[self.parent[x]]
            x = self.parent[x]
        return x


class _Scan:
    """Passes over the nodes in the order they run."""

    def __init__(self, graph: fx.GraphModule) -> None:
        self.graph = graph
        self.channels = _Channels()
        self.of: dict[fx.Node, np.ndarray] = {}
        self.layers: list[Layer] = []
        self.uses: dict[int, int] = {}
        for node in graph.graph.find_nodes(op="get_attr"):
            key = attribute(graph, node.target).data_ptr()
            self.uses[key] = self.uses.get(key, 0) + len(node.users)
        self.rules: dict[torch._ops.OpOverload, Callable[[fx.Node], np.ndarray | None]] = {
            **dict.fromkeys(LINEARS, self._layer),
            **dict.fromkeys(SAME, self._same),
            **dict.fromkeys(MOVES, self._move),
            **dict.fromkeys(PADS, self._pad),
            **dict.fromkeys(CLAMPS, self._clamp),
            **dict.fromkeys(SUMS, self._sum),
            **dict.fromkeys(PRODUCTS, self._product),
            aten.mean.dim: self._mean,
            aten.cat.default: self._concat,
            aten.slice.Tensor: self._slice,
        }

    def visit(self, node: fx.Node) -> None:
        """Note the channels of a node's result; where no rule holds, they are fixed, and so are those of its inputs."""
        if node.op == "get_attr":
            return
        reads = any(x in self.of for x in node.all_input_nodes)
        rule = self.rules.get(node.target) if node.op == "call_function" and reads else None
        found = None if rule is None else rule(node)
        if found is None:
            # Features that a staged network hands from segment to segment may be scaled: all who read them are in the graph.
            for x in [x for x in node.all_input_nodes if node.op != "output" or is_answer(x)]:
                self._fix(x)
            shape = _shape(node)
            found = self.channels.new(shape[1] if len(shape) > 1 else 0)
            self.channels.fixed.update(found.tolist())
        self.of[node] = found

    def ties(self) -> Ties:
        """What was found, with ties numbered from 0."""
        roots = np.array([self.channels.find(i) for i in range(len(self.channels.parent))], np.int64)
        names, numbers = np.unique(roots, return_inverse=True)
        fixed = np.zeros(len(names), bool)
        fixed[numbers[sorted(self.channels.fixed)]] = True
        tensors = tuple((node, numbers[ids]) for node, ids in self.of.items() if len(ids))
        layers = tuple(Layer(a.node, a.groups, numbers[a.inputs], numbers[a.outputs]) for a in self.layers)
        return Ties(fixed, tensors, layers)

    def _fix(self, node: fx.Node) -> None:
        self.channels.fixed.update(self.of.get(node, np.empty(0, np.int64)).tolist())

    def _own(self, node: object) -> bool:
        """Whether a constant has no other reader."""
        if not isinstance(node, fx.Node) or node.op != "get_attr":
            return False
        return self.uses[attribute(self.graph, node.target).data_ptr()] == 1

    def _layer(self, node: fx.Node) -> np.ndarray | None:
        x, weight, bias, *_ = [*node.args, None]
        groups = node.args[6] if len(node.args) > 6 else 1
        on_other_axis = node.target is aten.linear.default and len(_shape(node)) != 2
        if x not in self.of or on_other_axis or not self._own(weight) or not (bias is None or self._own(bias)) or node.kwargs:
            return None
        outputs = self.channels.new(_shape(node)[1])
        self.layers.append(Layer(node, groups, self.of[x], outputs))
        return outputs

    def _same(self, node: fx.Node) -> np.ndarray | None:
        x = node.args[0]
        return self.of[x] if _shape(x)[:2] == _shape(node)[:2] else None

    def _move(self, node: fx.Node) -> np.ndarray | None:
        before, after = _shape(node.args[0]), _shape(node)
        if len(before) < 2 or len(after) < 2 or before[0] != after[0]:
            return None
        if len(after) == 2:
            return np.repeat(self.of[node.args[0]], after[1] // before[1])
        return self._same(node)

    def _pad(self, node: fx.Node) -> np.ndarray | None:
        x, sizes, *how = node.args
        value = [a for a in how if isinstance(a, int | float)]
        return self.of[x] if len(sizes) <= 2 * (len(_shape(x)) - 2) and not any(value) else None

    def _clamp(self, node: fx.Node) -> np.ndarray | None:
        return self.of[node.args[0]] if clamp_bounds(node) == (0.0, math.inf) else None

    def _mean(self, node: fx.Node) -> np.ndarray | None:
        rank = len(_shape(node.args[0]))
        return self._same(node) if all(axis % rank > 1 for axis in node.args[1]) else None

    def _sum(self, node: fx.Node) -> np.ndarray | None:
        a, b = node.args[:2]
        if a not in self.of or b not in self.of or _shape(a)[1:2] != _shape(b)[1:2] or len(_shape(a)) != len(_shape(b)):
            return None
        self.channels.tie(self.of[a], self.of[b])
        return self.of[a]

    def _product(self, node: fx.Node) -> np.ndarray | None:
        """X * constant, or x * gate where the gate is one value a channel, as in squeeze-and-excite."""
        a, b = node.args[:2]
        for x, gate in ((a, b), (b, a)):
            if x not in self.of or _shape(x) != _shape(node):
                continue
            if gate not in self.of:
                return self.of[x]
            places = _shape(gate)[2:]
            if places and all(side == 1 for side in places) and _shape(x)[2:] != places:
                self._fix(gate)
                return self.of[x]
        return None

    def _concat(self, node: fx.Node) -> np.ndarray | None:
        parts, axis = node.args[0], node.args[1] if len(node.args) > 1 else 0
        if any(part not in self.of for part in parts) or axis % len(_shape(node)) != 1:
            return None
        return np.concatenate([self.of[part] for part in parts])

    def _slice(self, node: fx.Node) -> np.ndarray | None:
        x, axis, start, end, step = [*node.args, *(0, None, None, 1)[len(node.args) - 1 :]]
        axis %= len(_shape(x))
        if axis == 1:
            return self.of[x][slice(start, end, step)]
        return self._same(node)


def _shape(node: fx.Node) -> tuple[int, ...]:
    value = node.meta.get("val")
    return tuple(value.shape) if isinstance(value, torch.Tensor) else ()

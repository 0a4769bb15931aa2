"""One quantized program of a staged network -> its segments, quantized programs of their own.

The staged network is calibrated once and its features are outputs, so each cut runs through a quantize operator whose scale its
producer and its readers share. A segment keeps float edges that begin with a quantize and end with a dequantize operator, as a
whole program does: every lowering makes integers of them in its own way, and no operator is left at the edge.
"""

from collections.abc import Sequence

import torch
from torch import fx
from torch.export import ExportedProgram

from edgekit.build.integer import DEQUANTIZE, QUANTIZE
from edgekit.build.programs import edge_shapes, graph_of
from edgekit.build.quantize import Quantized
from edgekit.build.walk import linears
from edgekit.spec.errors import GoalError

__all__ = ["exits_of", "segments", "whole"]


def exits_of(quantized: Quantized) -> int:
    """How many exits a staged program has, its last answer included; 1 of a program that is not staged."""
    return (len(quantized.exits) + 1) // 2


def segments(quantized: Quantized) -> tuple[Quantized, ...]:
    """A staged program -> a program for each exit: the image or the features before -> logits, then features for the next.

    Args:
        quantized: gives `(logits_0, ..., logits_last, features_0, ..., features_last_but_one)`.

    Raises:
        GoalError: `cut-skip`; something besides the features crosses a cut. `cut-float`; the features are not integers.
    """
    count = exits_of(quantized)
    starts = [None, *range(count, len(quantized.exits))]
    ends = [[i] if i == count - 1 else [i, count + i] for i in range(count)]
    return tuple(_segment(quantized, start, end) for start, end in zip(starts, ends, strict=True))


def whole(quantized: Quantized) -> Quantized:
    """A staged program -> the network without its exits, on the same integers."""
    count = exits_of(quantized)
    return quantized if count == 1 else _segment(quantized, None, [count - 1])


def _segment(quantized: Quantized, start: int | None, ends: Sequence[int]) -> Quantized:
    """What lies between features, or the image, and some outputs; all are told by their place among the outputs."""
    folded, layers = _cut(quantized.folded, start, ends)
    unfolded, _ = _cut(quantized.unfolded, start, ends)
    floats = [node.name in quantized.float_layers for node in linears(quantized.folded.graph_module)]
    # Export numbers nodes anew, so layers are known by their place among all layers.
    kept = zip(linears(folded.graph_module), (floats[place] for place in layers), strict=True)
    return Quantized(
        folded=folded,
        unfolded=unfolded,
        entry=quantized.entry if start is None else quantized.exits[start],
        exits=tuple(quantized.exits[end] for end in ends),
        tensors=(),
        float_layers=tuple(node.name for node, is_float in kept if is_float),
    )


def _cut(program: ExportedProgram, start: int | None, ends: Sequence[int]) -> tuple[ExportedProgram, list[int]]:
    """-> the part, and the places of its layers among all layers of the program."""
    graph = graph_of(program)
    image = next(iter(graph.graph.find_nodes(op="placeholder")))
    found = next(iter(graph.graph.find_nodes(op="output"))).args[0]
    outputs = list(found) if isinstance(found, tuple | list) else [found]
    begin = image if start is None else _quantize_of(outputs[start])
    needed = _needed([outputs[end] for end in ends], begin)
    if start is not None and image in needed:
        raise GoalError(
            "something besides its features crosses a cut of the quantized network",
            where=str(begin.args[0]),
            fix="place the exit behind a whole block",
            code="cut-skip",
        )
    part = fx.Graph()
    x = part.placeholder("x")
    known = {begin: x if start is None else part.call_function(QUANTIZE, (x, *begin.args[1:]))}
    for node in graph.graph.nodes:
        if node in needed:
            known[node] = part.node_copy(node, lambda n: known[n])
    part.output(tuple(known[outputs[end]] for end in ends))
    layers = [i for i, layer in enumerate(linears(graph)) if layer in needed]
    size, sizes = edge_shapes(program)
    shape = size if start is None else sizes[start]
    return torch.export.export(fx.GraphModule(graph, part), (torch.zeros(shape),), strict=False), layers


def _quantize_of(output: fx.Node) -> fx.Node:
    quantize = output.args[0]
    if output.target is not DEQUANTIZE or not isinstance(quantize, fx.Node) or quantize.target is not QUANTIZE:
        raise GoalError(
            "the features at a cut stay float",
            where=str(output),
            fix="place the exit behind another module, such as a whole block",
            code="cut-float",
        )
    return quantize


def _needed(ends: Sequence[fx.Node], begin: fx.Node) -> set[fx.Node]:
    """All that `ends` depend on, up to `begin`, which is left out."""
    found: set[fx.Node] = set()
    waiting = list(ends)
    while waiting:
        node = waiting.pop()
        if node not in found and node is not begin:
            found.add(node)
            waiting.extend(node.all_input_nodes)
    return found

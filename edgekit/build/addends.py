"""Scales of sums, chosen so that fixed-point and floating-point kernels round them alike.

An integer addition computes a r_a + b r_b with r_a = scale_a / scale_out. XNNPACK holds the ratios as fixed-point numbers of
20 bits,
ONNX Runtime as float32; where a ratio does not fit 20 bits, about one result in five thousand falls on the other side of a
half, and
fifty layers of a network can blow that up to a step in every logit. Ratios of 17 bits fit both, at a change of the scale of
less than one part in a hundred thousand.
"""

import math

from torch import fx

from edgekit.build.integer import DEQUANTIZE, QUANTIZE
from edgekit.build.quantizer import PADS, SAME_SCALE, aten

__all__ = ["RATIO_BITS", "align_addends"]

RATIO_BITS = 17
ADDS = (aten.add.Tensor, aten.add_.Tensor)
LEAST_SHARE = 2.0**-8
"""An addend so much finer than the sum would lose too many bits of its ratio: it is left as it is."""


def align_addends(graph: fx.GraphModule) -> int:
    """Move the scales of both addends of every quantized sum to a 17-bit ratio of the sum's own scale; returns how many moved.

    `quantize(dequantize(a, s_a) + dequantize(b, s_b), s)` -> the same with s_a = s r_a, s_b = s r_b. Sums are visited from the
    last to the first, because the sum of one block is an addend of the next. Must run before biases are put on their grid.
    """
    groups = _groups(graph)
    moved = 0
    for node in reversed(graph.graph.nodes):
        if node.op != "call_function" or node.target not in ADDS:
            continue
        result = _result(node)
        operands = [a for a in node.args[:2] if isinstance(a, fx.Node) and a.target is DEQUANTIZE]
        if result is None or len(operands) != 2:
            continue
        scale = float(result.args[1])
        ratios = [float(operand.args[1]) / scale for operand in operands]
        grid = 2.0 ** (math.floor(math.log2(max(ratios))) + 1 - RATIO_BITS)
        for operand, ratio in zip(operands, ratios, strict=True):
            source = operand.args[0]
            same = source in groups and groups[source] is groups.get(result)
            if source not in groups or same or ratio < LEAST_SHARE * max(ratios):
                continue
            _rescale(groups[source], scale * max(1, round(ratio / grid)) * grid)
            moved += 1
    graph.recompile()
    return moved


def _result(node: fx.Node) -> fx.Node | None:
    """The quantize operator behind a sum, through a clamp if there is one."""
    while len(node.users) == 1:
        (node,) = node.users
        if node.target is QUANTIZE:
            return node
        if node.op != "call_function" or node.target is DEQUANTIZE:
            return None
    return None


def _groups(graph: fx.GraphModule) -> dict[fx.Node, list[fx.Node]]:
    """Each quantize operator of an activation -> all that must have its scale: before and behind paddings, reshapes, concatenations."""
    groups: dict[fx.Node, list[fx.Node]] = {
        node: [node] for node in graph.graph.nodes if node.target is QUANTIZE and node.args[0].op != "get_attr"
    }
    for node in graph.graph.nodes:
        if node.op != "call_function" or node.target not in (*SAME_SCALE, *PADS, aten.cat.default):
            continue
        inputs = node.args[0] if node.target is aten.cat.default else [node.args[0]]
        members = [i.args[0] for i in inputs if isinstance(i, fx.Node) and i.target is DEQUANTIZE] + list(node.users)
        members = [m for m in members if m in groups]
        for other in members[1:]:
            _join(groups, members[0], other)
    return groups


def _join(groups: dict[fx.Node, list[fx.Node]], first: fx.Node, second: fx.Node) -> None:
    if groups[first] is groups[second]:
        return
    merged = groups[first] + groups[second]
    for member in merged:
        groups[member] = merged


def _rescale(group: list[fx.Node], scale: float) -> None:
    for quantize in group:
        for node in (quantize, *(user for user in quantize.users if user.target is DEQUANTIZE)):
            node.args = (node.args[0], scale, *node.args[2:])

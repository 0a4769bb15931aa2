"""Scales of sums, chosen so that fixed-point and floating-point kernels round every sum alike.

An integer addition computes a r_a + b r_b with r_a = scale_a / scale_out. XNNPACK holds the ratios as fixed-point numbers of 20
bits and rounds halves up, ONNX Runtime computes in float32 and rounds halves to even; about one result in five thousand falls on
different sides, and a deep network blows a single one up to a fifth of a step in every logit.

There are only 65,536 pairs of addends. So the ratios are put on a grid that both kernels hold exactly, and among the
neighbours on that grid two are searched for which no pair comes near a half. The scales move by less than one part in a thousand.
"""

import math

import numpy as np
from torch import fx

from edgekit.build.integer import DEQUANTIZE, QUANTIZE
from edgekit.build.quantizer import PADS, SAME_SCALE, aten

__all__ = ["align_addends", "clear_ratios", "clearance"]

ADDS = (aten.add.Tensor, aten.add_.Tensor)

RATIO_BITS = 16
"""Of the larger ratio: float32 holds products with 8-bit integers to within one unit of this grid."""

CLEARANCE = 2
"""Units of the grid that every sum keeps from a half."""

REACH = 12
"""Neighbours on the grid that are tried, in each direction."""

LEAST_UNITS = 256
"""A ratio of fewer units would move too far when it moves by one: it is left as it is."""


def align_addends(graph: fx.GraphModule) -> int:
    """Move the scales of both addends of every quantized sum to clear ratios of the sum's own scale; returns how many moved.

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
        if result is None or len(operands) != 2 or not _free(operands, result, groups):
            continue
        scale, zero_point = float(result.args[1]), int(result.args[2])
        ratios = tuple(float(operand.args[1]) / scale for operand in operands)
        found = clear_ratios(ratios, tuple(int(o.args[2]) for o in operands), zero_point)
        if found is None:
            continue
        for operand, ratio in zip(operands, found, strict=True):
            _rescale(groups[operand.args[0]], scale * ratio)
        moved += 1
    graph.recompile()
    return moved


def clear_ratios(ratios: tuple[float, ...], zero_points: tuple[int, ...], zero_point: int) -> tuple[float, float] | None:
    """The nearest two ratios on the grid for which no pair of addends sums to about a half; None if one ratio is too small.

    Args:
        ratios: scale of each addend over that of the sum.
        zero_points: of the addends.
        zero_point: of the sum.
    """
    unit = 2.0 ** (math.floor(math.log2(max(ratios))) + 1 - RATIO_BITS)
    first, second = (round(ratio / unit) for ratio in ratios)
    if min(first, second) < LEAST_UNITS:
        return None
    steps = range(-REACH, REACH + 1)
    order = sorted(((i, j) for i in steps for j in steps), key=lambda ij: (abs(ij[0]) + abs(ij[1]), ij))
    best, best_clearance = (first, second), -1
    for i, j in order:
        units = (first + i, second + j)
        clear = clearance(units, zero_points, zero_point, units_per_step=round(1 / unit))
        if clear > best_clearance:
            best, best_clearance = units, clear
        if clear >= CLEARANCE:
            break
    return best[0] * unit, best[1] * unit


def clearance(units: tuple[int, int], zero_points: tuple[int, ...], zero_point: int, *, units_per_step: int) -> int:
    """Distance in units of the sum that comes nearest to a half, over all pairs of int8 addends whose sum does not saturate."""
    values = [np.arange(-128, 128, dtype=np.int64) - z for z in zero_points]
    sums = units[0] * values[0][:, None] + units[1] * values[1][None, :]
    inside = (sums >= (-129 - zero_point) * units_per_step) & (sums <= (128 - zero_point) * units_per_step)
    away = np.abs(sums[inside] % units_per_step - units_per_step // 2)
    return int(away.min()) if away.size else units_per_step


def _free(operands: list[fx.Node], result: fx.Node, groups: dict[fx.Node, list[fx.Node]]) -> bool:
    """Both scales can be moved without moving that of the sum, or each other."""
    members = [groups.get(operand.args[0]) for operand in operands]
    own = groups.get(result)
    return all(m is not None and m is not own for m in members) and members[0] is not members[1]


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
    """Each quantize operator of an activation -> all that must share its scale, through paddings, reshapes, concatenations."""
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

"""Sums round alike in a fixed-point and in a floating-point kernel, for every pair of addends."""

import math

import numpy as np
import pytest
import torch
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from edgekit.build.addends import CLEARANCE, align_addends, clear_ratios, clearance
from edgekit.build.integer import DEQUANTIZE, QUANTIZE
from edgekit.build.quantizer import EdgeQuantizer

VALUES = np.arange(-128, 128)
# Scales as they come out of calibration: a residual block whose branch is finer, equal, or coarser than the sum.
CASES = (
    ((0.285473, 0.174683, 0.307712), (-11, 8, -3)),
    ((0.051494, 0.035386, 0.052001), (-3, -128, -128)),
    ((0.0472281931, 0.0368043679, 0.0391273), (1, -128, -128)),
    ((0.9, 1.7, 1.0), (0, 5, 7)),
    ((0.011, 0.2, 0.205), (-128, 0, 1)),
)


def fixed_point(ratios, zero_points, zero_point):
    """XNNPACK's qs8-vadd: multipliers of 20 bits, halves up."""
    shift = 20 - math.floor(math.log2(max(ratios)))
    a, b = (int(np.rint(np.float32(ratio) * np.float32(2.0**shift))) for ratio in ratios)
    total = a * (VALUES[:, None] - zero_points[0]) + b * (VALUES[None, :] - zero_points[1])
    return np.clip(((total + (1 << (shift - 1))) >> shift) + zero_point, -128, 127)


def floating_point(ratios, zero_points, zero_point):
    """MLAS's QLinearAdd on uint8: float32 products, a constant with all zero points, halves to even."""
    a, b = (np.float32(ratio) for ratio in ratios)
    za, zb, z = (np.float32(v + 128) for v in (*zero_points, zero_point))
    constant = z - (a * za + b * zb)
    unsigned = (VALUES + 128).astype(np.float32)
    total = unsigned[:, None] * a + (unsigned[None, :] * b + constant)
    return np.clip(np.rint(total), 0, 255).astype(int) - 128


@pytest.mark.parametrize(("scales", "zero_points"), CASES)
def test_both_kernels_agree_on_every_pair_after_the_move(scales, zero_points):
    *addends, result = scales
    *zeros, zero = zero_points
    moved = clear_ratios(tuple(s / result for s in addends), tuple(zeros), zero)
    assert moved is not None
    assert np.array_equal(fixed_point(moved, zeros, zero), floating_point(moved, zeros, zero))
    for before, after in zip(addends, moved, strict=True):
        assert abs(after * result / before - 1) < 1 / 256


def test_without_the_move_some_pairs_differ():
    """Else the whole module would be for nothing."""
    differing = 0
    for (*addends, result), (*zeros, zero) in CASES:
        ratios = tuple(s / result for s in addends)
        differing += int((fixed_point(ratios, zeros, zero) != floating_point(ratios, zeros, zero)).sum())
    assert differing > 0


def test_clearance_counts_units_to_the_nearest_half():
    # 3 a + 0 b on a grid of 8 units: 3 a = 4 mod 8 for a = 4, so one sum is a half.
    assert clearance((3, 0), (0, 0), 0, units_per_step=8) == 0
    # Multiples of 2 units against a half at 3 of 6: never nearer than one unit.
    assert clearance((2, 0), (0, 0), 0, units_per_step=6) == 1


def test_a_ratio_of_a_few_units_is_left_alone():
    assert clear_ratios((1.0, 1e-4), (0, 0), 0) is None


class TwoBlocks(torch.nn.Module):
    """The sum of the first block is an addend of the second."""

    def __init__(self):
        super().__init__()
        self.a, self.b = (torch.nn.Conv2d(3, 3, 3, padding=1) for _ in range(2))

    def forward(self, x):
        y = x + torch.relu(self.a(x))
        return y + self.b(y)


def converted():
    torch.manual_seed(0)
    example = (torch.randn(1, 3, 16, 16),)
    graph = torch.export.export(TwoBlocks().eval(), example, strict=False).module(check_guards=False)
    prepared = prepare_pt2e(graph, EdgeQuantizer())
    prepared(*example)
    return convert_pt2e(prepared), example


def test_a_graph_keeps_its_answer_and_all_its_sums_are_clear():
    graph, example = converted()
    before = graph(*example)
    assert align_addends(graph) == 2
    after = graph(*example)
    step = max(float(n.args[1]) for n in graph.graph.nodes if n.target is QUANTIZE)
    assert float((after - before).abs().max()) <= 2 * step
    for node in graph.graph.nodes:
        if node.target is torch.ops.aten.add.Tensor:
            (result,) = node.users
            scale = result.args[1]
            units = 2.0 ** (math.floor(math.log2(max(o.args[1] for o in node.args) / scale)) + 1 - 16)
            pair = tuple(round(o.args[1] / scale / units) for o in node.args)
            zeros = tuple(o.args[2] for o in node.args)
            assert clearance(pair, zeros, result.args[2], units_per_step=round(1 / units)) >= CLEARANCE


def test_producer_and_readers_still_share_one_scale():
    graph, _ = converted()
    align_addends(graph)
    for node in graph.graph.nodes:
        if node.target is DEQUANTIZE and node.args[0].target is QUANTIZE:
            assert node.args[1:3] == node.args[0].args[1:3]

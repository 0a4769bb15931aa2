"""Rounding that lets gradients through, and scales that are learned."""

import pytest
import torch
from qat_toys import exported, relu6

from edgekit.build.fake_quantizers import ActivationRounding, WeightRounding, implied_limit
from edgekit.build.quantize import integer_graph
from edgekit.build.quantizer import WEIGHT_SCALE_FLOOR
from edgekit.build.recipe import PLAIN


def test_rounding_lets_gradients_through_but_where_it_clips():
    x = torch.tensor([-4.0, -0.3, 0.26, 0.9, 40.0], requires_grad=True)
    rounding = ActivationRounding(0.1, 0)
    y = rounding(x)
    assert y.tolist() == pytest.approx([-4.0, -0.3, 0.3, 0.9, 12.7])
    y.sum().backward()
    assert x.grad.tolist() == [1, 1, 1, 1, 0]
    weight = torch.tensor([[0.5, -1.27], [0.0, 0.0]], requires_grad=True)
    rounding = WeightRounding(2)
    rounding(weight).sum().backward()
    assert weight.grad.tolist() == [[1, 1], [1, 1]]
    assert rounding.calculate_qparams()[0].tolist() == pytest.approx([0.01, WEIGHT_SCALE_FLOOR])


def test_a_learned_scale_finds_its_step():
    """Values on a grid of 0.2, and a scale that begins at 0.3."""
    x = 0.2 * torch.arange(-20, 20).repeat(4)
    rounding = ActivationRounding(0.3, 0, learned=True)
    optimizer = torch.optim.Adam(rounding.parameters(), lr=0.01)
    first = float((rounding(x) - x).square().mean())
    for _ in range(200):
        optimizer.zero_grad()
        (rounding(x) - x).square().mean().backward()
        optimizer.step()
    assert float((rounding(x) - x).square().mean()) < first / 2


def test_a_learned_scale_does_not_outgrow_its_clamp():
    graph, _ = integer_graph(exported(relu6()), [], recipe=PLAIN)
    clamp = next(n for n in graph.graph.nodes if "relu6" in n.name or "hardtanh" in n.name)
    limit = implied_limit([clamp], 4 / 255, -128)
    assert limit == pytest.approx(6 / 254.5)
    assert implied_limit([clamp], 7 / 255, -128) == float("inf")
    rounding = ActivationRounding(4 / 255, -128, learned=True, limit=limit)
    with torch.no_grad():
        rounding.gain.fill_(3.0)
    assert float(rounding.calculate_qparams()[0]) == pytest.approx(limit)
    rounding(torch.linspace(0, 6, 50)).sum().backward()
    assert rounding.gain.grad.abs() > 0

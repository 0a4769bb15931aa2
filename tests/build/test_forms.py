"""Forms for which engines have kernels: the values stay, the operators change."""

import pytest
import torch
from small_graphs import graph, operators, outputs
from torch import nn
from torch.nn import functional as F

from edgekit.build import forms


def conv(outputs=4):
    return nn.Conv2d(3, outputs, 3, padding=1)


def check(apply, join, after, *, count=1, tolerance=1e-5, **parts):
    """`apply` turns the operators of the graph into `after` and keeps its outputs."""
    module = graph(join, **parts)
    before = outputs(module)
    assert apply(module) == count
    assert operators(module) == after
    found = outputs(module)
    assert found.shape == before.shape
    assert torch.allclose(found, before, atol=tolerance, rtol=tolerance)
    return module


def unchanged(apply, join, **parts):
    module = graph(join, **parts)
    kinds = operators(module)
    assert apply(module) == 0
    assert operators(module) == kinds


@pytest.mark.parametrize("axes", [(2, 3), (3, 2), (-1, -2)])
def test_means_keep_their_axes(axes):
    check(forms.means_keep_axes, lambda net, x: x.mean(axes), ["mean", "flatten"])


@pytest.mark.parametrize("axes", [(1,), (1, 2), (1, 2, 3)])
def test_other_means_stay(axes):
    unchanged(forms.means_keep_axes, lambda net, x: x.mean(axes))
    unchanged(forms.means_keep_axes, lambda net, x: x.mean((2, 3), keepdim=True))


@pytest.mark.parametrize(
    ("split", "parts"),
    [
        (lambda x: x.chunk(3, dim=1), 3),
        (lambda x: x.chunk(2, dim=-1), 2),
        (lambda x: torch.split(x, [2, 5, 1], dim=2), 3),
        (lambda x: torch.split(x, 3, dim=3), 3),
    ],
    ids=["chunk", "chunk-last", "sizes", "size"],
)
def test_splits_become_slices(split, parts):
    check(
        forms.splits_as_slices,
        lambda net, x: torch.cat([part.flatten(1) * i for i, part in enumerate(split(x))], dim=1),
        ["slice"] * parts + ["flatten", "mul"] * parts + ["cat"],
    )


def test_an_unused_part_of_a_split_costs_nothing():
    check(forms.splits_as_slices, lambda net, x: x.chunk(3, dim=1)[1], ["slice"])


def test_a_norm_alone_becomes_a_depthwise_convolution():
    module = check(forms.norms_as_convolutions, lambda net, x: net.norm(x), ["conv2d"], norm=nn.BatchNorm2d(3))
    node = next(n for n in module.graph.nodes if n.op == "call_function")
    assert node.args[6] == 3
    check(forms.norms_as_convolutions, lambda net, x: net.norm(x), ["conv2d"], norm=nn.BatchNorm2d(3, affine=False))


@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.avg_pool2d(x, 2),
        lambda x: F.avg_pool2d(x, 3, 1, 1),
        lambda x: F.avg_pool2d(x, (2, 4), stride=(1, 2)),
        lambda x: F.avg_pool2d(x, 2, count_include_pad=False),
    ],
    ids=["plain", "padded", "rectangular", "exclusive-without-padding"],
)
def test_average_pools_become_convolutions(pool):
    check(forms.pools_as_convolutions, lambda net, x: pool(x), ["conv2d"])


def test_an_average_over_everything_is_a_mean():
    check(forms.pools_as_convolutions, lambda net, x: F.avg_pool2d(x, 8), ["mean"])


@pytest.mark.parametrize(("size", "after"), [(2, ["avg_pool2d"]), ((4, 1), ["avg_pool2d"]), (8, [])])
def test_adaptive_pools_become_pools(size, after):
    check(forms.adaptive_pools_as_pools, lambda net, x: F.adaptive_avg_pool2d(x, size), after)


@pytest.mark.parametrize("size", [1, 3])
def test_adaptive_pools_to_one_value_or_to_uneven_parts_stay(size):
    unchanged(forms.adaptive_pools_as_pools, lambda net, x: F.adaptive_avg_pool2d(x, size))


@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False),
        lambda x: F.avg_pool2d(x, 3, ceil_mode=True),
        lambda x: F.avg_pool2d(x, 2, divisor_override=3),
    ],
    ids=["exclusive", "ceil", "divisor"],
)
def test_other_pools_stay(pool):
    unchanged(forms.pools_as_convolutions, lambda net, x: pool(x))


@pytest.mark.parametrize(
    ("join", "kind"),
    [
        (lambda net, x: x + 0.5, "add"),
        (lambda net, x: x - 2, "add"),
        (lambda net, x: x * 3, "mul"),
        (lambda net, x: x / 7, "mul"),
    ],
)
def test_scalars_become_tensors(join, kind):
    module = check(forms.scalars_as_tensors, join, [kind])
    node = next(n for n in module.graph.nodes if n.op == "call_function")
    assert node.args[1].op == "get_attr"


def test_a_division_by_zero_is_left_to_the_network():
    unchanged(forms.scalars_as_tensors, lambda net, x: x / 0)


@pytest.mark.parametrize(
    ("clamp", "kind"),
    [
        (lambda x: x.clamp(min=0), "relu"),
        (lambda x: x.clamp_min(0), "relu"),
        (lambda x: x.clamp(0.1, 0.7), "hardtanh"),
        (lambda x: x.clamp_min(0.3), "hardtanh"),
        (lambda x: x.clamp(max=0.3), "hardtanh"),
    ],
)
def test_clamps_take_the_spelling_that_fuses(clamp, kind):
    check(forms.plain_clamps, lambda net, x: clamp(x), [kind])


@pytest.mark.parametrize("clamp", [F.relu, F.relu6, F.hardtanh])
def test_clamps_move_next_to_the_layer(clamp):
    name = {F.relu: "relu", F.relu6: "relu6"}.get(clamp, "hardtanh")
    check(
        forms.clamps_first,
        lambda net, x: clamp(F.max_pool2d(net.conv(x), 3, 2, 1).flatten(1)),
        ["conv2d", name, "max_pool2d", "flatten"],
        conv=conv(),
    )


@pytest.mark.parametrize(
    "join",
    [
        pytest.param(lambda net, x: F.relu(F.max_pool2d(x, 2)), id="no-layer"),
        pytest.param(lambda net, x: F.relu(F.max_pool2d(y := net.conv(x), 2)).sum() + y, id="layer-has-another-reader"),
        pytest.param(lambda net, x: F.relu(p := F.max_pool2d(net.conv(x), 2)) + p, id="pool-has-another-reader"),
        pytest.param(lambda net, x: F.relu(F.avg_pool2d(net.conv(x), 2)), id="average-does-not-commute"),
    ],
)
def test_clamps_stay_where_they_would_change_something(join):
    unchanged(forms.clamps_first, join, conv=conv())


def test_all_forms_together_keep_the_values():
    def join(net, x):
        a, b = F.max_pool2d(net.conv(x), 2).clamp(min=0).chunk(2, dim=1)
        return net.norm(torch.cat([a * 2, F.avg_pool2d(b, 3, 1, 1)], dim=1)).mean((2, 3))

    module = graph(join, conv=conv(), norm=nn.BatchNorm2d(4))
    before = outputs(module)
    assert forms.integer_forms(module) == 7
    assert torch.allclose(outputs(module), before, atol=1e-5)

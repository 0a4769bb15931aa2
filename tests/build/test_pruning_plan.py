"""Plans on made-up costs, where the right answer is known."""

import pytest

from edgekit.build.pruning.costs import Costs, Extent, TensorCost
from edgekit.build.pruning.plan import LEAST_MACS, Target, plan
from edgekit.build.pruning.steps import Prunable
from edgekit.spec.errors import InputError

SHARES = (0.25, 0.5, 0.75)


def chain(*sizes, positions):
    """Convolutions 1x1 in a row: group i makes the outputs of layer i; input and output stay."""
    tensors = []
    for i, (rows, columns) in enumerate(zip(sizes[1:], sizes, strict=False)):
        extents = []
        extents.append(Extent(rows) if i == len(sizes) - 2 else Extent(0, ((i, 1),)))
        extents.append(Extent(columns) if i == 0 else Extent(0, ((i - 1, 1),)))
        tensors.append(TensorCost(tuple(extents), 1, positions[i]))
    return Costs(tuple(tensors))


def groups(*units, rises, blocks=1, whole=None):
    whole = whole or units
    return [
        Prunable(f"layer{i}", n, w, blocks, rise, SHARES) for i, (n, w, rise) in enumerate(zip(units, whole, rises, strict=True))
    ]


def target(costs, units, ratio, measure="parameters"):
    return Target(ratio, measure, *costs.of(units))


def test_costs_are_products_of_what_is_kept():
    costs = chain(3, 64, 128, 10, positions=(100, 10, 1))
    assert costs.of((64, 128)) == (3 * 64 + 64 * 128 + 1280, 100 * 192 + 10 * 8192 + 1280)
    assert costs.of((32, 16)) == (3 * 32 + 32 * 16 + 160, 100 * 96 + 10 * 512 + 160)
    first, second = costs.by_group(2)
    assert (len(first.tensors), len(second.tensors)) == (2, 2)


def test_a_useless_group_goes_first():
    costs = chain(3, 64, 64, 64, 10, positions=(1, 1, 1, 1))
    rises = ((1.0, 2.0, 3.0), (0.0, 0.0, 0.0), (1.0, 2.0, 3.0))
    assert plan(costs, groups(64, 64, 64, rises=rises), target(costs, (64, 64, 64), 0.4)) == (64, 32, 64)


def with_a_step_back(units, sizes, round_to):
    """The plans in which one of the pruned groups keeps a step more."""
    return [tuple(n + round_to * (i == j) for j, n in enumerate(units)) for i in range(len(units)) if units[i] < sizes[i]]


def still_enough(costs, units, wanted, ratio, measure):
    parameters, macs = costs.of(units)
    least = LEAST_MACS * ratio if measure == "parameters" else ratio
    enough = 1 - macs / wanted.macs >= least
    return enough and (measure == "macs" or 1 - parameters / wanted.parameters >= ratio)


@pytest.mark.parametrize("ratio", [0.1, 0.25, 0.4, 0.55, 0.7])
@pytest.mark.parametrize("measure", ["parameters", "macs"])
@pytest.mark.parametrize("round_to", [8, 16])
def test_the_ratio_is_met_and_hardly_passed_in_multiples(ratio, measure, round_to):
    sizes = (96, 192, 384, 512)
    costs = chain(3, *sizes, 10, positions=(256, 64, 16, 4, 1))
    rises = ((0.1, 0.5, 2.0), (0.05, 0.2, 0.6), (0.02, 0.3, 0.4), (0.0, 0.1, 0.9))
    wanted = target(costs, sizes, ratio, measure)
    units = plan(costs, groups(*sizes, rises=rises), wanted, round_to=round_to)
    assert wanted.removed(costs.of(units)) >= ratio
    assert not any(still_enough(costs, more, wanted, ratio, measure) for more in with_a_step_back(units, sizes, round_to))
    assert all(n % round_to == 0 and n >= max(round_to, 0.1 * whole) for n, whole in zip(units, sizes, strict=True))


def test_parameters_in_the_last_layer_do_not_hide_slow_first_ones():
    sizes = (64, 64, 512)
    costs = chain(3, *sizes, 1000, positions=(4096, 4096, 16, 1))
    rises = ((0.2, 0.4, 0.8), (0.2, 0.4, 0.8), (0.0, 0.01, 0.02))
    wanted = target(costs, sizes, 0.4)
    units = plan(costs, groups(*sizes, rises=rises), wanted)
    assert 0.4 <= wanted.removed(costs.of(units)) < 0.415
    assert 1 - costs.of(units)[1] / wanted.macs >= LEAST_MACS * 0.4
    assert units[2] < 512


def test_channels_of_grouped_layers_stay_divisible():
    costs = chain(3, 8, 10, positions=(1, 1))  # eight units of 4 blocks: 32 channels
    units = plan(costs, groups(8, rises=((0.0, 0.0, 0.0),), blocks=4), target(costs, (8,), 0.4))
    assert units == (4,)  # 16 channels: a multiple of 8 and of 4


def test_a_later_round_goes_on_from_what_is_left():
    costs = chain(3, 64, 64, 10, positions=(1, 1, 1))
    rises = ((0.1, 0.2, 0.3), (0.1, 0.2, 0.3))
    wanted = target(costs, (64, 64), 0.6)
    units = plan(costs, groups(48, 56, rises=rises, whole=(64, 64)), wanted)
    assert units[0] <= 48
    assert units[1] <= 56
    assert wanted.removed(costs.of(units)) >= 0.6


def test_a_ratio_out_of_reach_names_layer_and_limit():
    costs = chain(3, 64, 128, 10, positions=(1, 1, 1))
    with pytest.raises(InputError) as caught:
        plan(costs, groups(64, 128, rises=((0.0,) * 3,) * 2), target(costs, (64, 128), 0.99))
    error = caught.value
    assert (error.code, error.exit_code) == ("prune-ratio", 2)
    assert "would empty layer layer1" in error.what
    reachable = float(error.fix.split()[1])
    units = plan(costs, groups(64, 128, rises=((0.0,) * 3,) * 2), target(costs, (64, 128), reachable))
    assert min(units) >= 8


@pytest.mark.parametrize("ratio", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_a_ratio_that_is_none_is_refused(ratio):
    costs = chain(3, 64, 10, positions=(1, 1))
    with pytest.raises(InputError, match="not between 0 and 1"):
        plan(costs, groups(64, rises=((0.0,) * 3,)), target(costs, (64,), ratio))

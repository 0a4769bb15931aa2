"""Integers of weights: their grids, and that rounding once is rounding for good."""

import numpy as np
import pytest
import torch
from text_toys import toy

from edgekit.build.text.integers import TABLE, fingerprint, grid_of, grids_of, matched, names_by_weight, snap
from edgekit.spec.errors import UnknownName


def test_grid_is_the_nearest_step_of_each_row():
    weight = torch.tensor([[1.27, -0.634, 0.0], [0.0, 0.0, 0.0], [-2.54, 0.03, 1.0]])
    grid = grid_of(weight)
    assert grid.values.dtype == np.int8
    assert grid.scales.dtype == np.float32
    assert grid.values.tolist() == [[127, -63, 0], [0, 0, 0], [-127, 2, 50]]
    step = np.maximum(grid.scales[:, None], 0)
    assert np.abs(grid.real() - weight.numpy()).max() <= step.max() / 2 * (1 + 1e-6)


def test_snapping_twice_changes_nothing():
    plain = toy()
    first = snap(plain)
    weights = {name: linear.weight.clone() for name, linear in plain.linears().items()}
    second = snap(plain)
    assert list(first) == list(second) == [*plain.linears(), TABLE]
    for name, grid in first.items():
        assert np.array_equal(grid.values, second[name].values), name
    for name, linear in plain.linears().items():
        assert torch.allclose(linear.weight, weights[name], rtol=1e-6, atol=0), name


def test_snap_reaches_the_forms_and_stays_near():
    plain = toy()
    ids, keep = torch.arange(8)[None], torch.ones(1, 8)
    form = plain.form(tokens=8, norm="native")
    before = form(ids, keep)
    snap(plain)
    after = form(ids, keep)
    assert 0 < (after - before).abs().max() < 0.1 * before.abs().max()
    # The table's own grid, found a second time by the form, is that of `snap`.
    assert torch.allclose(plain.form(tokens=8, norm="native", table="int8")(ids, keep), after, atol=1e-5)


def test_float_layers_are_left_alone():
    plain = toy()
    name = next(iter(plain.linears()))
    before = plain.linears()[name].weight.clone()
    assert name not in snap(plain, float_layers=(name,))
    assert torch.equal(plain.linears()[name].weight, before)


def test_grids_of_rounds_nothing():
    plain = toy()
    before = plain.table.weight.clone()
    grids_of(plain)
    assert torch.equal(plain.table.weight, before)


def test_unknown_float_layer_names_the_nearest():
    with pytest.raises(UnknownName, match="head"):
        snap(toy(), float_layers=("haed",))


def test_matched_sees_one_step_of_one_weight():
    grids = snap(toy())
    arrays = [grid.values.copy() for grid in grids.values()]
    assert matched(arrays, grids) == tuple(grids)
    arrays[0][0, 0] ^= 1
    assert matched(arrays, grids) == tuple(grids)[1:]


def test_weights_are_found_by_what_they_hold():
    linears = toy().linears()
    names = names_by_weight(linears)
    for name, linear in linears.items():
        assert names[fingerprint(linear.weight.numpy())] == name
        assert fingerprint(linear.weight.numpy() + 1e-3) not in names

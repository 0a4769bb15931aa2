"""Margins keep what they promise: simulated, with rungs that would fool the net accuracy."""

import itertools

import numpy as np
import pytest

from edgekit.build.ladder.bounds import harm_bound
from edgekit.build.ladder.margins import FLOORS, Trials, calibrate, calibrate_floors, expected_cost, stops
from edgekit.build.ladder.paths import designed, levels_of, straight
from edgekit.build.ladder.summary import summarise

PATH = straight(range(0, 257, 4))


def world(random, n, *, wrong=(0.2, 0.05), slope=0.03, rungs=2):
    """Trials in which an early rung errs the less the larger its margin, and independently of the last one."""
    margins = random.integers(0, 120, (n, rungs - 1)).astype(float)
    right = np.ones((n, rungs), bool)
    right[:, -1] = random.random(n) >= wrong[1]
    for i in range(rungs - 1):
        right[:, i] = random.random(n) >= wrong[0] * np.exp(-slope * margins[:, i])
    return Trials(margins, right)


def truth(margins, *, wrong=(0.2, 0.05), slope=0.03):
    """Rate of harmful answers in `world` with two rungs, summed over all margins."""
    return sum(wrong[0] * np.exp(-slope * m) for m in range(120) if m >= margins[0]) / 120 * (1 - wrong[1])


def test_an_input_stops_at_the_first_margin_that_it_reaches():
    margins = np.array([[5.0, 9.0], [4.9, 9.0], [4.9, 8.9], [5.0, 0.0]])
    assert stops(margins, (5.0, 9.0)).tolist() == [0, 1, 2, 0]
    assert expected_cost(np.array([0, 1, 2, 0]), (1.0, 2.0, 4.0)) == pytest.approx((1 + 3 + 7 + 1) / 4)


def test_harmful_is_where_only_the_last_rung_is_right():
    right = np.array([[True, True], [False, True], [True, False], [False, False]])
    trials = Trials(np.zeros((4, 1)), right)
    assert trials.harmful(np.zeros(4, int)).tolist() == [False, True, False, False]
    assert not trials.harmful(np.ones(4, int)).any()


def test_trials_of_logits():
    low = np.array([[127, -128, 0], [3, 3, 1], [-5, -9, -7]], np.int8)
    high = np.array([[0, 9, 1], [4, 5, 6], [1, 0, 0]], np.int8)
    trials = Trials.of([low, high], np.array([0, 2, 0]))
    assert trials.margins.tolist() == [[127.0], [0.0], [2.0]]
    assert trials.right.tolist() == [[True, False], [False, True], [True, True]]
    wide = Trials.of([np.array([[127, -128]], np.int8), high[:1]], None)
    assert wide.margins.tolist() == [[255.0]]
    assert Trials.of([low, high], None).right.tolist() == [[False, True], [False, True], [True, True]]
    assert Trials.of([np.zeros((2, 1)), np.zeros((2, 1))], np.zeros(2, int)).margins.tolist() == [[0.0], [0.0]]


def test_promise_is_broken_in_at_most_one_of_twenty():
    """The limit is set where the truth crosses it between two margins, so that a careless choice would fail half the time."""
    random = np.random.default_rng(0)
    broken, runs, saved = 0, 600, []
    for _ in range(runs):
        found = calibrate(world(random, 900), PATH, (4.0, 10.0), limit_pp=3.0)
        broken += truth(found.margins) > 0.03
        saved.append(found.cost)
    assert broken / runs <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / runs)
    assert np.mean(saved) < 9.0  # and it is of use: never stopping costs 14


def test_a_free_search_would_break_it():
    """The same margins chosen as the cheapest that look harmless, without a bound: what the test above would catch."""
    random = np.random.default_rng(0)
    broken = 0
    for _ in range(200):
        trials = world(random, 900)
        looks = [v for v in PATH if trials.harmful(stops(trials.margins, v)).mean() <= 0.03]
        broken += truth(min(looks, key=lambda v: v[0])) > 0.03
    assert broken / 200 > 0.3


def test_net_accuracy_is_a_trap():
    """A rung that errs as often as the last one, on other inputs, loses nothing in sum here and is not let through."""
    random = np.random.default_rng(1)
    n = 2000
    right = np.stack([random.random(n) < 0.9, random.random(n) < 0.9], 1)
    trials = Trials(random.integers(0, 100, (n, 1)).astype(float), right)
    assert abs(right[:, 0].mean() - right[:, 1].mean()) < 0.02
    found = calibrate(trials, PATH, (4.0, 10.0), limit_pp=1.0)
    assert found.margins[0] > 90
    assert trials.harmful(stops(trials.margins, found.margins)).mean() <= 0.01


def test_the_walk_ends_at_the_first_failure():
    """Margins behind it may look fine again: taking them would be a free search."""
    margins = np.repeat([[30.0], [20.0], [10.0]], 1000, 0)
    right = np.ones((3000, 2), bool)
    right[1000:1100, 0] = False
    found = calibrate(Trials(margins, right), [(100.0,), (30.0,), (20.0,), (10.0,)], (1.0, 9.0), limit_pp=3.0)
    assert (found.margins, found.tested) == ((30.0,), 2)
    assert found.bound_pp <= 3.0


def test_what_never_stops_harms_nobody_but_too_few_prove_nothing():
    found = calibrate(world(np.random.default_rng(0), 100), PATH, (4.0, 10.0), limit_pp=1.0)
    assert (found.margins, found.harmful, found.kept) == ((256.0,), 0, False)
    assert found.bound_pp == pytest.approx(100 * harm_bound(0, 100))


def test_floors_are_nested_and_each_keeps_its_own():
    random = np.random.default_rng(2)
    trials = world(random, 4000)
    floors = calibrate_floors(trials, PATH, (4.0, 10.0), limit_pp=2.0)
    assert list(floors) == ["accurate", "balanced", "fast"]
    assert floors["accurate"].margins >= floors["balanced"].margins >= floors["fast"].margins
    assert floors["accurate"].cost > floors["fast"].cost
    for floor, share in FLOORS.items():
        assert floors[floor].limit_pp == 2.0 * share
        assert floors[floor].bound_pp <= floors[floor].limit_pp


def test_three_rungs_keep_the_promise_on_a_path_that_other_examples_made():
    random = np.random.default_rng(3)
    costs = (3.0, 3.0, 6.0)
    design = world(random, 1500, rungs=3)
    levels = [levels_of(design.margins[:, i], never=256.0) for i in range(2)]
    path = designed(design, levels, costs)
    assert path[0] == (256.0, 256.0)
    assert path[-1] == (0.0, 0.0)
    assert all(a[0] >= b[0] and a[1] >= b[1] for a, b in itertools.pairwise(path))
    huge = world(random, 200_000, rungs=3)
    broken, runs = 0, 150
    for _ in range(runs):
        found = calibrate(world(random, 900, rungs=3), path, costs, limit_pp=3.0)
        broken += huge.harmful(stops(huge.margins, found.margins)).mean() > 0.03
    assert broken / runs <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / runs)


def test_levels_begin_at_never_and_end_at_zero():
    levels = levels_of(np.arange(1000.0), never=5000.0, count=10)
    assert (levels[0], levels[-1]) == (5000.0, 0.0)
    assert list(levels) == sorted(set(levels), reverse=True)
    passed = [float((np.arange(1000.0) >= level).mean()) for level in levels[1:]]
    assert np.diff(passed).max() < 0.13


def test_summary_of_a_ladder():
    margins = np.array([[9.0], [9.0], [1.0], [1.0], [9.0]])
    right = np.array([[True, True], [False, True], [False, True], [False, False], [True, False]])
    found = summarise(Trials(margins, right), ("low", "high"), (5.0,), (4.0, 10.0))
    low, high = found.rungs
    assert (low.stopped, high.stopped, low.share) == (3, 2, 0.6)
    assert (low.top1, high.top1, low.top1_alone, high.top1_alone) == (2 / 3, 0.5, 0.4, 0.6)
    assert (found.harmful, found.helpful) == (1, 1)
    assert (found.top1, found.top1_full, found.drop_pp) == (0.6, 0.6, 0.0)
    assert found.cost == pytest.approx((3 * 4 + 2 * 14) / 5)
    assert (found.cost_p50, found.cost_p99) == (4.0, 14.0)
    shares = {row.share: row.top1 for row in found.by_share}
    assert (shares[0.0], shares[1.0]) == (0.6, 0.4)
    assert shares[0.2] == 0.6  # the surest one is right in both

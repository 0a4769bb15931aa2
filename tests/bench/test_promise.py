"""What may be promised: the bound covers, and stays honest where hardly a photo tells two networks apart."""

import numpy as np
import pytest

from edgekit.bench.promise import least_photos, promise
from edgekit.bench.stats import drop_interval, resampled_drop, share_interval


def answers(n, *, right, lost, won):
    """Right or wrong before and after: `lost` photos only before, `won` only after."""
    before, after = np.zeros(n, bool), np.zeros(n, bool)
    before[:right] = after[:right] = True
    after[:lost] = False
    after[right : right + won] = True
    return before, after


def test_equal_answers_promise_less_than_nothing_lost():
    found = promise(*answers(600, right=550, lost=0, won=0))
    assert found.drop_pp == 0
    assert 0.2 < found.bound_pp < 0.6
    assert found.keeps(1.0)
    assert not found.keeps(0.1)


def test_bound_is_above_the_drop_and_below_the_two_sided_limit():
    found = promise(*answers(600, right=550, lost=14, won=4))
    assert found.drop_pp == pytest.approx(100 * 10 / 600)
    assert found.drop_pp < found.bound_pp < found.interval_pp[1]


def test_resampling_keeps_pairs_together():
    before, after = answers(400, right=350, lost=6, won=6)
    drops = resampled_drop(before, after)
    # Independent samples of two networks at 87 % would scatter by 2.4 points.
    assert 100 * drops.std() == pytest.approx(100 * np.sqrt(12) / 400, rel=0.1)
    assert abs(drops.mean()) < 1e-3


def test_bound_covers_in_nineteen_of_twenty_samples():
    """From a population with a known drop, the promise must hold 95 % of the time."""
    rng = np.random.default_rng(7)
    lost, won, true = 0.03, 0.01, 0.02
    kept = 0
    for _ in range(400):
        kind = rng.choice(4, size=300, p=[0.88 - lost, lost, won, 0.12 - won])
        before, after = kind <= 1, (kind == 0) | (kind == 2)
        kept += promise(before, after).bound_pp >= 100 * true
    assert kept >= 0.93 * 400


def test_least_photos_is_the_first_count_that_can_prove_it():
    n = least_photos(1.0)
    for count, enough in ((n, True), (n - 1, False)):
        before, after = answers(count, right=round(0.9 * count), lost=0, won=0)
        assert promise(before, after).keeps(1.0) is enough


def test_share_interval_never_leaves_zero_to_one():
    assert share_interval(np.ones(20, bool))[1] == 1.0
    low, high = share_interval(np.arange(100) < 90)
    assert 0.82 < low < 0.9 < high < 0.95


def test_interval_by_z_is_narrower_for_a_smaller_z():
    before, after = answers(300, right=250, lost=9, won=3)
    _, (low, high) = drop_interval(before, after)
    _, (inner_low, inner_high) = drop_interval(before, after, z=1.0)
    assert low < inner_low < inner_high < high

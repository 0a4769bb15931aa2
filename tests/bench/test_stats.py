import numpy as np
import pytest

from edgekit.bench.stats import drop_interval, ratio_of_medians


def test_ratio_of_medians():
    rng = np.random.default_rng(0)
    ratio, (low, high) = ratio_of_medians(rng.normal(20, 1, 60), rng.normal(10, 1, 60))
    assert low < ratio < high
    assert ratio == pytest.approx(2, rel=0.05)
    assert high - low < 0.4


def test_rounds_that_are_slow_for_both_do_not_widen_the_interval():
    load = np.random.default_rng(0).uniform(1, 5, 60)
    _, (low, high) = ratio_of_medians(20 * load, 10 * load)
    assert (low, high) == (2, 2)


def test_the_ratio_repeats():
    a, b = np.random.default_rng(0).normal(10, 1, (2, 50))
    assert ratio_of_medians(a, b) == ratio_of_medians(a, b)


def answers(both, first, second, neither):
    before = [True] * (both + first) + [False] * (second + neither)
    after = [True] * both + [False] * first + [True] * second + [False] * neither
    return np.array(before), np.array(after)


def test_drop_of_a_large_sample_has_the_textbook_interval():
    before, after = answers(6000, 300, 200, 3500)
    drop, (low, high) = drop_interval(before, after)
    se = np.sqrt(500 - 100**2 / 10000) / 10000
    assert drop == pytest.approx(0.01)
    assert (low, high) == (pytest.approx(0.01 - 1.96 * se, abs=2e-4), pytest.approx(0.01 + 1.96 * se, abs=2e-4))


def test_the_same_answers_do_not_prove_that_there_is_no_drop():
    drop, (low, high) = drop_interval(*answers(180, 0, 0, 70))
    assert drop == 0
    assert low < 0 < high
    assert high < 0.05


def test_it_covers_the_truth():
    rng = np.random.default_rng(0)
    shares = np.array([0.62, 0.05, 0.03, 0.30])
    hits = 0
    for counts in rng.multinomial(250, shares, size=2000):
        _, (low, high) = drop_interval(*answers(*counts))
        hits += low <= shares[1] - shares[2] <= high
    assert hits / 2000 >= 0.935


@pytest.mark.parametrize("counts", [(0, 0, 0, 5), (5, 0, 0, 0), (0, 5, 0, 0), (1, 0, 0, 0)])
def test_edges(counts):
    drop, (low, high) = drop_interval(*answers(*counts))
    assert -1 <= low <= drop <= high <= 1

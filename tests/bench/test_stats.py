import numpy as np
import pytest

from edgekit.bench.stats import drop_interval, least_share, ratio_of_medians, share_interval


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


@pytest.mark.parametrize(("share", "n", "of"), [(0.93, 614, 170), (0.8, 200, 200), (0.5, 100, 1000)])
def test_what_few_new_examples_will_show_at_least_is_kept_19_times_of_20(share, n, of):
    rng = np.random.default_rng(0)
    seen, new = rng.binomial(n, share, 4000) / n, rng.binomial(of, share, 4000) / of
    kept = np.mean([after >= least_share(before, n, of=of) for before, after in zip(seen, new, strict=True)])
    assert 0.945 < kept < 0.98
    # What holds at large does not hold of few: that is why there are two figures.
    at_large = [share_interval(np.arange(n) < before * n, z=1.645)[0] for before in seen[:500]]
    assert np.mean(new[:500] >= at_large) < kept

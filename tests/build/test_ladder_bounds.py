"""What so many examples may promise: against numbers of the literature, against exact sums, and by simulation."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from edgekit.build.ladder.bounds import harm_bound, least_samples, most_harmful, power, refuse_few, samples_needed
from edgekit.spec.errors import GoalError


@pytest.mark.parametrize(("harmful", "n"), [(0, 299), (1, 473), (2, 628), (3, 773)])
def test_examples_for_one_point(harmful, n):
    assert least_samples(1.0, harmful=harmful) == n
    assert harm_bound(harmful, n) <= 0.01 < harm_bound(harmful, n - 1)
    assert (most_harmful(n, 1.0), most_harmful(n - 1, 1.0)) == (harmful, harmful - 1)


@pytest.mark.parametrize("n", [10, 300, 614])
@pytest.mark.parametrize("harmful", [0, 1, 5])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_the_bound_is_where_so_few_would_be_rare(harmful, n, confidence):
    bound = harm_bound(harmful, n, confidence)
    assert binom.cdf(harmful, n, bound) == pytest.approx(1 - confidence)


def test_nothing_is_bounded_where_all_are_harmful():
    assert harm_bound(5, 5) == 1.0
    assert harm_bound(0, 0) == 1.0
    assert most_harmful(10, 1.0) == -1


def test_rule_of_three():
    assert harm_bound(0, 1000) == pytest.approx(3 / 1000, rel=0.01)


@pytest.mark.parametrize(("limit_pp", "rate"), [(1.0, 0.0025), (0.5, 0.001), (2.0, 0.01)])
def test_samples_needed_give_the_chance(limit_pp, rate):
    n = samples_needed(limit_pp, rate)
    assert power(n, limit_pp, rate) >= 0.8
    random = np.random.default_rng(0)
    seen = random.binomial(n, rate, 4000)
    allowed = np.mean([harm_bound(int(k), n) <= limit_pp / 100 for k in seen])
    assert allowed == pytest.approx(power(n, limit_pp, rate), abs=4 * math.sqrt(0.2 / 4000))


def test_no_number_of_examples_proves_what_is_not_so():
    with pytest.raises(ValueError, match="no number"):
        samples_needed(1.0, 0.01)
    assert power(298, 1.0, 0.0) == 0.0
    assert power(299, 1.0, 0.0) == 1.0


def test_too_few_says_how_many():
    refuse_few(299, 1.0, where="photos")
    with pytest.raises(GoalError, match="298 examples cannot promise at most 1 points") as caught:
        refuse_few(298, 1.0, where="photos")
    error = caught.value
    assert (error.code, error.where) == ("ladder-samples", "photos")
    assert "299 are needed if none of them is harmful" in error.what
    needed = samples_needed(1.0, 0.0025)
    assert f"{needed} for a chance of 80%" in error.what
    assert f"at least {needed}" in error.fix
    affordable = float(error.fix.split()[-1])
    refuse_few(298, affordable, where="photos")

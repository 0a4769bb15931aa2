"""Payloads that disagree reach nobody; ties of the network itself are no disagreement."""

import pytest

from edgekit.build.gates import LEAST_AGREEMENT, MOST_MEAN_STEPS, Pair, check_pairs
from edgekit.spec.errors import GoalError


def pair(*, agreement=1.0, mean=0.0):
    return Pair("onnx-int8", "litert-int8", agreement, mean, 3.0)


@pytest.mark.parametrize("fine", [pair(), pair(agreement=LEAST_AGREEMENT, mean=MOST_MEAN_STEPS), pair(agreement=0.9, mean=0.01)])
def test_equal_payloads_and_ties_pass(fine):
    check_pairs([fine])


@pytest.mark.parametrize("bad", [pair(mean=0.51), pair(agreement=0.97, mean=0.2)])
def test_a_disagreement_names_the_layer(bad):
    with pytest.raises(GoalError) as caught:
        check_pairs([pair(), bad], worst_layer=lambda found: f"conv of {found.a}")
    assert caught.value.code == "parity"
    assert caught.value.where == "conv of onnx-int8"

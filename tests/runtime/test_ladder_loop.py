"""The loop over rungs, with sessions that are functions."""

import numpy as np
import pytest

from edgekit.runtime.ladder import Step, climb, margin_of
from edgekit.spec.errors import BundleError
from edgekit.spec.manifest import Rung


def logits(*values, dtype=np.int8):
    return np.array([values], dtype)


class Fake:
    """Answers `outputs`, and remembers what it was asked."""

    def __init__(self, *outputs):
        self.outputs = outputs
        self.asked = []

    def __call__(self, *inputs):
        self.asked.append(inputs)
        return self.outputs


def image_of(rung):
    return (np.full((1, 1), rung.resolution_px),)


def rung(name, px, margin, *, continues=False):
    return Rung(name, px, px, continues, margin)


@pytest.mark.parametrize(
    ("values", "dtype", "wanted"),
    [
        ((5, -12, 3), np.int8, 2),
        ((127, -128), np.int8, 255),
        ((255, 0), np.uint8, 255),
        ((20, 20, -1), np.int8, 0),
        ((-7,), np.int8, 0),
        ((1.5, -0.25, 1.0), np.float32, 0.5),
    ],
)
def test_margin(values, dtype, wanted):
    assert margin_of(logits(*values, dtype=dtype)) == wanted
    assert margin_of(logits(*values, dtype=dtype).reshape(-1)) == wanted


@pytest.mark.parametrize(("margin", "stops_at"), [(29, 0), (30, 0), (31, 1)])
def test_margin_is_reached_when_equal(margin, stops_at):
    low, high = Fake(logits(40, 10)), Fake(logits(0, 9))
    outcome = climb([Step(rung("low", 128, margin), low), Step(rung("high", 224, 0), high)], image_of)
    assert outcome.index == stops_at
    assert len(high.asked) == stops_at
    assert outcome.margin == (30, 9)[stops_at]


def test_restart_takes_the_image_at_its_own_resolution():
    low, high = Fake(logits(1, 1)), Fake(logits(3, 1))
    climb([Step(rung("low", 128, 5), low), Step(rung("high", 224, 0), high)], image_of)
    assert [low.asked[0][0].item(), high.asked[0][0].item()] == [128, 224]


def test_continuing_takes_the_features():
    features = (np.ones(3), np.zeros(2))
    first, second = Fake(logits(1, 1), *features), Fake(logits(7, 1))
    steps = [Step(rung("a", 8, 5), first), Step(rung("b", 8, 0, continues=True), second)]
    outcome = climb(steps, image_of)
    assert second.asked == [features]
    assert (outcome.index, outcome.margin) == (1, 6)


def test_last_rung_answers_whatever_its_margin():
    assert climb([Step(rung("only", 8, 99), Fake(logits(1, 1)))], image_of).index == 0


def test_image_is_prepared_only_for_rungs_that_run():
    prepared = []

    def prepare(item):
        prepared.append(item.name)
        return image_of(item)

    steps = [Step(rung(name, 8, 5), Fake(logits(9, 1))) for name in ("a", "b")]
    climb(steps, prepare)
    assert prepared == ["a"]


def test_ladders_that_cannot_be_climbed():
    with pytest.raises(BundleError, match="no rungs"):
        climb([], image_of)
    with pytest.raises(BundleError, match="gives no features"):
        climb([Step(rung("a", 8, 0, continues=True), Fake(logits(1, 2)))], image_of)
    with pytest.raises(BundleError, match="'b' continues a rung that gives no features"):
        climb([Step(rung("a", 8, 5), Fake(logits(1, 1))), Step(rung("b", 8, 0, continues=True), Fake())], image_of)

"""Gates of INT8 payloads whose outputs are float: distances count, answers only where the network is trained."""

import numpy as np
import pytest

from edgekit.build.likeness import FEWEST, LEAST_AGREEMENT, MOST_DISTANCE, check_alike
from edgekit.build.stages.answer import Answers
from edgekit.build.verdicts import pairs_agree
from edgekit.spec.errors import GoalError

CLASSES = 20


@pytest.fixture
def logits():
    return np.random.default_rng(0).standard_normal((2 * FEWEST, CLASSES)).astype(np.float32)


def moved(logits, share):
    """The same logits, a share of their own length away."""
    noise = np.random.default_rng(1).standard_normal(logits.shape)
    lengths = np.linalg.norm(logits - logits.mean(1, keepdims=True), axis=1) / np.linalg.norm(noise, axis=1)
    return (logits + share * noise * lengths[:, None]).astype(np.float32)


def near_ties(logits):
    """Logits of which every tenth has another best class by a hair."""
    changed = logits.copy()
    rows = np.arange(0, len(logits), 10)
    second = np.argsort(logits[rows], 1)[:, -2]
    changed[rows, second] = logits[rows].max(1) + 1e-3
    return changed


def test_figures_are_given(logits):
    a, b = moved(logits, 0.01), moved(logits, 0.02)
    found = check_alike({"a-int8": a, "b-int8": b}, reference=logits, trained=True)
    assert set(found) == {"a-int8/b-int8", "a-int8", "b-int8"}
    assert found["a-int8"].distance == pytest.approx(0.01, rel=1e-3)
    assert found["a-int8"].n == len(logits)


@pytest.mark.parametrize("trained", [True, False])
def test_far_from_the_float_network_is_refused(logits, trained):
    far = moved(logits, 1.1 * MOST_DISTANCE)
    with pytest.raises(GoalError, match="the float network") as caught:
        check_alike({"a-int8": far, "b-int8": far}, reference=logits, trained=trained)
    assert (caught.value.code, caught.value.where) == ("parity", "a-int8")


def test_far_from_a_sibling_is_refused(logits):
    with pytest.raises(GoalError, match="a-int8 and b-int8"):
        check_alike({"a-int8": logits, "b-int8": moved(logits, 1.1 * MOST_DISTANCE)})


def test_answers_of_a_trained_network_count(logits):
    other = near_ties(logits)
    assert np.mean(other.argmax(1) == logits.argmax(1)) < LEAST_AGREEMENT
    with pytest.raises(GoalError, match="the same answer on 90"):
        check_alike({"a-int8": other}, reference=logits, trained=True)
    check_alike({"a-int8": other}, reference=logits, trained=False)
    few = FEWEST - 1
    check_alike({"a-int8": other[:few]}, reference=logits[:few], trained=True)


def test_integers_keep_their_steps_beside_floats(logits):
    a = np.tile(np.array([[10, 0, 0]], np.int8), (50, 1))
    b = a.copy()
    b[:, 1:] = 1
    pairs_agree(Answers(None, {"onnx-int8": logits, "litert-int8": moved(logits, 0.01), "onnx-fp32": 9 * logits}))
    with pytest.raises(GoalError, match="steps on average"):
        pairs_agree(Answers(None, {"onnx-int8": a, "litert-int8": b}))
    with pytest.raises(GoalError, match="logits"):
        pairs_agree(Answers(None, {"onnx-int8": logits, "litert-int8": moved(logits, 1.1 * MOST_DISTANCE)}))

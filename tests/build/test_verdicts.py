"""From answers to promises: labels are matched by name, and without them agreement counts."""

import numpy as np
import pytest

from edgekit.build.stages.answer import Answers
from edgekit.build.verdicts import class_indices, pairs_agree, promises
from edgekit.spec.errors import GoalError


def logits(best, classes=4):
    return np.eye(classes, dtype=np.float32)[np.asarray(best)]


def test_labels_are_matched_by_name_before_by_number():
    assert class_indices(("bee", "ant"), ("ant", "bee", "cat"), 3) == (1, 0)
    assert class_indices(("x", "y", "z"), (), 3) == (0, 1, 2)
    assert class_indices(("x", "y"), ("ant", "bee", "cat"), 3) is None
    assert class_indices((), ("ant",), 3) == (0, 1, 2)


def test_drop_counts_right_answers():
    labels = np.array([0, 1, 2, 3] * 25)
    best = labels.copy()
    best[:10] = (best[:10] + 1) % 4
    found = promises(Answers(labels, {"float": logits(labels)}), Answers(labels, {"onnx-int8": logits(best)}), (0, 1, 2, 3))
    assert found["onnx-int8"].drop_pp == pytest.approx(10.0)
    assert found["onnx-int8"].metric_float == 1.0


def test_labels_go_through_the_indices():
    labels = np.array([0, 1] * 50)
    network = np.where(labels == 0, 3, 2)
    found = promises(Answers(labels, {"float": logits(network)}), Answers(labels, {"p": logits(network)}), (3, 2))
    assert found["p"].metric == 1.0


def test_without_labels_agreement_counts():
    wanted = np.zeros(100, int)
    best = wanted.copy()
    best[:4] = 1
    found = promises(Answers(None, {"float": logits(wanted)}), Answers(None, {"p": logits(best)}), None)
    assert (found["p"].metric_float, found["p"].drop_pp) == (1.0, pytest.approx(4.0))


def test_payloads_that_part_are_refused():
    a = np.tile(np.array([[10, 0, 0]], np.int8), (50, 1))
    b = a.copy()
    b[:5] = (0, 10, 0)
    pairs_agree(Answers(None, {"onnx-int8": a, "litert-int8": a.copy()}))
    with pytest.raises(GoalError) as caught:
        pairs_agree(Answers(None, {"onnx-int8": a, "litert-int8": b}))
    assert caught.value.code == "parity"

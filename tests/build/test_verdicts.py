"""From answers to promises: right answers count, and without labels agreement."""

import numpy as np
import pytest

from edgekit.build.stages.answer import Answers
from edgekit.build.verdicts import pairs_agree, promises
from edgekit.spec.errors import GoalError


def logits(best, classes=4):
    return np.eye(classes, dtype=np.float32)[np.asarray(best)]


def test_drop_counts_right_answers():
    labels = np.array([0, 1, 2, 3] * 25)
    best = labels.copy()
    best[:10] = (best[:10] + 1) % 4
    found = promises(Answers(labels, {"float": logits(labels)}), Answers(labels, {"onnx-int8": logits(best)}))
    assert found["onnx-int8"].drop_pp == pytest.approx(10.0)
    assert found["onnx-int8"].metric_float == 1.0


def test_without_labels_agreement_counts():
    wanted = np.zeros(100, int)
    best = wanted.copy()
    best[:4] = 1
    found = promises(Answers(None, {"float": logits(wanted)}), Answers(None, {"p": logits(best)}))
    assert (found["p"].metric_float, found["p"].drop_pp) == (1.0, pytest.approx(4.0))


def test_payloads_that_part_are_refused():
    a = np.tile(np.array([[10, 0, 0]], np.int8), (50, 1))
    b = a.copy()
    b[:5] = (0, 10, 0)
    pairs_agree(Answers(None, {"onnx-int8": a, "litert-int8": a.copy()}))
    with pytest.raises(GoalError) as caught:
        pairs_agree(Answers(None, {"onnx-int8": a, "litert-int8": b}))
    assert caught.value.code == "parity"

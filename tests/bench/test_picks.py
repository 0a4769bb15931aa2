"""What counts as an answer: the best class, or of embeddings the nearest other text."""

import numpy as np
import pytest

from edgekit.bench import EngineResult, judged
from edgekit.bench.judged import judge, picks

RESULT = EngineResult("onnx-int8", "int8", "CPU", True, 0.0)
VECTORS = np.array([[1, 0], [0.9, 0.1], [0, 1], [0.2, 0.9], [-1, 0]])


def test_best_class():
    assert picks(np.array([[1, 3, 2], [5, 5, 0]])).tolist() == [1, 0]


@pytest.mark.parametrize("block", [1, 2, 1024])
def test_nearest_other_text(monkeypatch, block):
    monkeypatch.setattr(judged, "_BLOCK", block)
    assert picks(VECTORS, embeds=True).tolist() == [1, 0, 3, 2, 2]


def test_embeddings_agree_where_the_same_text_is_nearest():
    before = picks(VECTORS, embeds=True)
    turned = VECTORS @ np.array([[0.0, 1.0], [-1.0, 0.0]])
    assert judge(RESULT, turned, None, before, embeds=True).agreement_float == 1.0
    swapped = VECTORS[[4, 1, 2, 3, 0]]
    assert judge(RESULT, swapped, None, before, embeds=True).agreement_float == pytest.approx(0.4)

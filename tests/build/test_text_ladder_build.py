"""From a Hugging Face folder and a CSV to a bundle whose texts stop early, and what is refused on the way."""

import dataclasses
import json

import numpy as np
import pytest
import small_texts as small

import edgekit
from edgekit.build import api
from edgekit.build.ladder.wish import Adaptive
from edgekit.build.stages.answer_text_rungs import read_text_rungs
from edgekit.build.text.ladder import LadderTexts, ladder_texts
from edgekit.runtime.ladder import climb
from edgekit.spec.bundle import open_bundle
from edgekit.spec.errors import GoalError, InputError

pytest.importorskip("transformers", reason="it makes the folder")
pytest.importorskip("tokenizers")
EXITS = Adaptive(kinds=("exits",))


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    place = tmp_path_factory.mktemp("source")
    return f"hf:{small.folder(place / 'tiny', layers=3)}", small.data(place / "data", each=400)


def request(place, source, adaptive=EXITS, **options):
    model, data = source
    return dataclasses.replace(small.request(place, model, data, **options), adaptive=adaptive)


@pytest.fixture(scope="module")
def built(source, tmp_path_factory):
    """(result, bundle) of one engine."""
    pytest.importorskip("onnxruntime")
    place = tmp_path_factory.mktemp("built")
    asked = request(place, source, epochs=4, max_drop_pp=6.0)
    return api.build(asked), asked.out


def test_a_ladder_is_chosen_and_told(built):
    result, _ = built
    found = result.ladder
    names = [option.candidate.name for option in found.choice.options]
    assert sorted(names) == ["exit1 -> exit2 -> last", "exit1 -> last", "exit2 -> last", "main"]
    assert found.choice.static.candidate.rungs == ("main",)
    assert len(found.choice.chosen.candidate.rungs) > 1, [(o.candidate.name, o.cost, o.why) for o in found.choice.options]
    assert set(found.costs_ms["onnx-int8"]) == {"exit1", "exit2", "last", "main"}
    assert min(found.costs_ms["onnx-int8"].values()) > 0
    balanced = found.report["balanced"]
    assert balanced.n == 120
    assert balanced.rungs[-1].share < 1
    assert {network.name for network in result.networks} == {"before exits", "network"}
    assert all(network.top1 > 0.9 for network in result.networks)

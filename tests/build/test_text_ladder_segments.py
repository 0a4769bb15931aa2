"""Segments of a network that reads text: together they are the uncut network, bit for bit, in every engine."""

import numpy as np
import pytest
import torch
from text_ladder_toys import CLASSES, ENGINES, FAMILIES, RUNGS, TOKENS, TextFiles, chain, cut, staged_network, worst
from text_toys import text

from edgekit.build.stages.lower_text import lowering
from edgekit.build.text.config import CONFIGS
from edgekit.build.text.exits import StagedText, new_text_exits
from edgekit.build.text.integers import matched, snap
from edgekit.build.text.network import TextNetwork
from edgekit.build.text.segments import segmented
from edgekit.runtime.engines.pte import read_plans

EACH = [pytest.param("executorch", marks=pytest.mark.slow), "litert", "onnx"]
"""A minute for the first: it partitions every method anew."""

PART = 0.05
"""Of the largest logit: what rounding activations may change of an exit's answer."""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    made = {}

    def of(engine):
        pytest.importorskip({"executorch": "executorch", "litert": "ai_edge_litert", "onnx": "onnxruntime"}[engine])
        if engine not in made:
            made[engine] = TextFiles(engine, tmp_path_factory.mktemp(engine))
        return made[engine]

    return of


@pytest.mark.parametrize("family", FAMILIES)
def test_folding_changes_neither_exits_nor_the_last_answer(family):
    network, heads = staged_network(family)
    segments = segmented(network, heads).segments()
    assert tuple(segments) == (RUNGS if family != "two layers" else ("exit1", "last"))
    ids, keep = (torch.from_numpy(each) for each in text(9, used=7))
    with torch.inference_mode():
        wanted = StagedText(network, heads, joint=False).eval()(ids.where(keep > 0, torch.tensor(-1)))[0]
        x, found = ids, []
        for segment in segments.values():
            given = segment.form(tokens=None, norm="native")(x, keep)
            logits, *features = given if isinstance(given, tuple) else (given,)
            found.append(logits[0])
            x = features[0] if features else None
    torch.testing.assert_close(torch.stack(found), wanted, rtol=1e-4, atol=1e-4)


def test_every_layer_lies_in_one_segment():
    folded, grids = cut()
    found = [name for segment in folded.segments().values() for name in segment.linears()]
    assert sorted(found) == sorted(folded.linears())
    assert set(found) == set(grids) - {"table"}
    assert [name for name in found if name.startswith("exits.")] == [
        "exits.1.dense", "exits.1.linear", "exits.2.dense", "exits.2.linear"
    ]  # fmt: skip


@pytest.mark.parametrize("engine", EACH)
def test_the_chain_is_the_uncut_network(engine, files):
    off, answers = worst(files(engine))
    assert off == 0
    assert answers > 8


def test_a_chain_of_two_is_the_uncut_network(tmp_path):
    """In the engine that is left to slow tests above."""
    pytest.importorskip("executorch")
    off, answers = worst(TextFiles("executorch", tmp_path, family="two layers", tokens=(8,)))
    assert off == 0
    assert answers > 3


@pytest.mark.slow
@pytest.mark.parametrize("family", ["first token", "mobilebert"])
@pytest.mark.parametrize("engine", ENGINES)
def test_the_chain_is_the_uncut_network_in_every_family(engine, family, tmp_path):
    off, answers = worst(TextFiles(engine, tmp_path, family=family))
    assert off == 0
    assert answers > 8


@pytest.mark.parametrize("engine", EACH)
def test_exits_answer_as_in_float(engine, files):
    made, (folded, _) = files(engine), cut()
    ids, keep = text(16, used=11)
    _, *parts = made.load(1)
    found = chain(parts, ids.astype(made.uncut.buckets[1].inputs[0].dtype), keep)
    x = torch.from_numpy(ids)
    with torch.inference_mode():
        for logits, segment in zip(found, folded.segments().values(), strict=True):
            given = segment.form(tokens=16, norm="native")(x, torch.from_numpy(keep))
            wanted, x = given if isinstance(given, tuple) else (given, None)
            assert np.abs(logits - wanted.numpy()).max() <= PART * np.abs(wanted.numpy()).max()


@pytest.mark.parametrize("engine", EACH)
def test_edges_and_order(engine, files):
    made = files(engine)
    ids = "int32" if engine == "litert" else "int64"
    assert tuple(made.cut.buckets) == RUNGS
    for rung, buckets in made.cut.buckets.items():
        assert [b.tokens for b in buckets] == list(TOKENS)
        for b in buckets:
            first, keep = b.inputs
            features = ("float32", (b.tokens, 64), "TC", None, None)
            given = [(e.dtype, e.shape, e.layout, e.scale, e.zero_point) for e in (first, *b.outputs)]
            assert given[0] == ((ids, (1, b.tokens), "NT", None, None) if rung == "exit1" else features)
            assert (keep.dtype, keep.shape, keep.layout) == ("float32", (1, b.tokens), "NT")
            assert given[1] == ("float32", (1, CLASSES), "NC", None, None)
            assert given[2:] == ([] if rung == "last" else [features])
    assert len({b.method for buckets in made.cut.buckets.values() for b in buckets}) == (1 if engine == "onnx" else 6)


@pytest.mark.parametrize("engine", EACH)
def test_segments_hold_the_integers_of_the_uncut_network_once(engine, files):
    made = files(engine)
    weights = [array for content in made.cut.files.values() for array in made.code.weights_of(content)]
    assert matched(weights, made.grids) == tuple(made.grids)
    values = {grid.values.tobytes() for grid in made.grids.values()}
    flat = [np.ascontiguousarray(array).tobytes() for array in weights]
    assert sum(each in values for each in flat) == len(made.grids)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["litert", "onnx"])
def test_two_exits_take_less_than_a_twentieth(engine):
    """Of MiniLM, which has 77 classes here."""
    torch.manual_seed(0)
    network = TextNetwork(CONFIGS["minilm_l6"], 77).eval()
    folded = segmented(network, new_text_exits(network, (), seed=0))
    snap(folded)
    code = lowering(engine)
    uncut = len(code.lower(folded.plain, tokens=(16,), precision="int8").payload)
    parts = code.lower_segments(folded.segments(), tokens=(16,), classes=77).files
    assert uncut < sum(map(len, parts.values())) <= 1.02 * uncut


@pytest.mark.slow
def test_a_method_is_one_call_of_the_delegate(files):
    plans = {plan.name: plan for plan in read_plans(files("executorch").cut.files["executorch"])}
    assert len(plans) == 6
    for name, plan in plans.items():
        assert len(plan.delegate_calls) == 1, name
        assert bool(plan.kernel_calls) == name.startswith("exit1"), name  # the look-up of words

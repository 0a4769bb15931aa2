"""From a Hugging Face folder and a CSV to a bundle whose texts stop early, and what is refused on the way."""

import dataclasses

import pytest
import small_texts as small

import edgekit
from edgekit import catalog
from edgekit.build import api
from edgekit.build.compression import Teacher
from edgekit.build.fitting import fit
from edgekit.build.ladder.wish import Adaptive
from edgekit.build.text.chains import text_chains
from edgekit.runtime.loaded_text import load_text
from edgekit.spec.bundle import open_bundle
from edgekit.spec.errors import GoalError, InputError

pytest.importorskip("transformers", reason="it makes the folder")
pytest.importorskip("tokenizers")
EXITS = Adaptive(kinds=("exits",))


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    place = tmp_path_factory.mktemp("source")
    return f"hf:{small.folder(place / 'tiny', layers=3)}", small.data(place / "data", each=300)


def request(place, source, adaptive=EXITS, **options):
    model, data = source
    return dataclasses.replace(small.request(place, model, data, **options), adaptive=adaptive)


@pytest.fixture(scope="module")
def built(source, tmp_path_factory):
    """(result, bundle) of one engine."""
    pytest.importorskip("onnxruntime")
    place = tmp_path_factory.mktemp("built")
    asked = request(place, source, epochs=3, max_drop_pp=6.0)
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


def test_a_bundle_stops_where_its_margins_say(built, source):
    result, out = built
    names = result.ladder.choice.chosen.candidate.rungs
    texts = (source[1] / "validation.csv").read_text().splitlines()[1:41]
    with open_bundle(out) as reader:
        rungs, (payload,) = reader.manifest.rungs, reader.manifest.payloads
        assert tuple(rung.name for rung in rungs) == names
        assert [rung.continues for rung in rungs] == [False, *([True] * (len(names) - 1))]
        assert [rung.min_margin for rung in rungs[:-1]] == list(result.ladder.choice.margins["balanced"])
        assert rungs[0].margins.fast <= rungs[0].min_margin <= rungs[0].margins.accurate
        assert [(e.rung, e.tokens) for e in payload.entries] == [(name, n) for name in names for n in (8, 16)]
        assert len({e.file for e in payload.entries}) == len(names)
        loaded = load_text(reader, payload, threads=1)
        stopped = set()
        with edgekit.open(out) as model:
            assert all(golden.ok for golden in model.verify())
            for line in texts:
                found = model.run(line.rpartition(",")[0])
                ids = model._encode(line.rpartition(",")[0])
                inputs = loaded.tensors(ids, loaded.bucket_of(len(ids)))
                for rung in rungs:
                    logits = loaded.run(*inputs, rung=rung.name)[0].reshape(-1)
                    second, best = sorted(logits.tolist())[-2:]
                    if best - second >= rung.min_margin:
                        break
                assert found.rung == rung.name
                stopped.add(found.rung)
        loaded.close()
        assert names[0] in stopped
        assert reader.manifest.provenance["ladder"] == " -> ".join(names)


def test_a_second_build_finds_all_in_the_store(built, source):
    _, out = built
    again = request(out.parent, source, epochs=3, max_drop_pp=6.0)
    result = api.build(again)
    assert all(stage.cached for stage in result.stages)
    assert result.ladder == built[0].ladder


@pytest.mark.slow
def test_every_engine_serves_the_same_ladder(source, tmp_path):
    asked = request(tmp_path, source, epochs=3, max_drop_pp=6.0, engines=("executorch", "litert", "onnx"))
    found = api.build(asked).ladder
    assert found.same_stop >= 0.97
    assert set(found.costs_ms) == {"executorch-int8", "litert-int8", "onnx-int8"}
    for engine in ("executorch", "litert", "onnx"):
        with edgekit.open(asked.out, engine=engine) as model:
            assert all(golden.ok for golden in model.verify())


def test_where_nothing_is_saved_the_plain_network_is_packed(source, tmp_path, monkeypatch):
    """As a plain build would: the network that was fitted, without the training of exits."""
    from edgekit.build.stages import answer_text_rungs

    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(answer_text_rungs, "_mean_of_medians", lambda rounds, rung: {"main": 1.0}.get(rung, 2.0))
    asked = request(tmp_path, source, epochs=1, max_drop_pp=6.0, tokens=(16,))
    result = api.build(asked)
    assert result.ladder.choice.chosen.candidate.rungs == ("main",)
    assert result.ladder.report == {}
    plain = dataclasses.replace(asked, adaptive=None, out=tmp_path / "plain", compression=_unguarded(asked))
    assert api.build(plain).digest == result.digest


def _unguarded(asked):
    return dataclasses.replace(asked.compression, max_drop_pp=None)


def test_a_plan_tells_of_exits_and_runs_nothing(source, tmp_path):
    plan = api.plan(request(tmp_path, source, epochs=1, max_drop_pp=6.0))
    stages = [stage.name for chain in plan.chains for stage in chain.stages]
    assert stages == ["load-text", "fit-text", "text-exits", "lower-text", "lower-text-rungs"]
    assert "exit1 -> exit2 -> last; exit1 -> last; exit2 -> last" in plan.notes[1]
    assert "6 points harmful" in plan.notes[2]
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("code", "where", "wish", "options"),
    [
        ("ladder-kind", "--adaptive", Adaptive(kinds=("resolution",)), {}),
        ("ladder-kind", "--adaptive", Adaptive(kinds=("exits",), resolutions_px=(96,)), {}),
        ("ladder-kind", "--route-to", Adaptive(route_to="teacher"), {}),
        ("ladder-kind", "--adaptive", EXITS, {"epochs": 0}),
        ("ladder-precision", "--adaptive", EXITS, {"precisions": ("int8", "fp16")}),
        ("exit-layer", "--exits-after", Adaptive(kinds=("exits",), exits_after=("3",)), {}),
        ("exit-layer", "--exits-after", Adaptive(kinds=("auto",), exits_after=("blocks.2",)), {}),
        ("data-missing", "--data", EXITS, {"data_dir": None, "epochs": 2}),
    ],
)
def test_what_cannot_be_is_refused_before_anything_slow(source, tmp_path, code, where, wish, options):
    model, data = source
    if wish.route_to is not None:
        wish = Adaptive(route_to=Teacher(catalog.find_model(model)))
    given = {"data_dir": data, **options}
    for do in (api.plan, api.build):
        with pytest.raises(InputError) as caught:
            do(request(tmp_path, (model, given["data_dir"]), wish, **{k: v for k, v in options.items() if k != "data_dir"}))
        assert (caught.value.code, caught.value.where) == (code, where)
        assert caught.value.fix
    assert not (tmp_path / "store").exists()


def test_an_embedding_has_no_exits(source, tmp_path):
    asked = dataclasses.replace(request(tmp_path, source, epochs=0), task="sentence-embedding")
    with pytest.raises(InputError) as caught:
        api.plan(asked)
    assert caught.value.code == "ladder-kind"


def test_too_few_texts_promise_nothing(source, tmp_path):
    for do in (api.plan, api.build):
        with pytest.raises(GoalError) as caught:
            do(request(tmp_path, source, epochs=1, max_drop_pp=0.5))
        assert caught.value.code == "ladder-samples"
    assert not (tmp_path / "store").exists()


def test_a_fitted_network_of_the_data_goes_on_and_one_of_other_names_is_refused(source, tmp_path):
    model, data = source
    checkpoint = fit(small.request(tmp_path, model, data, epochs=1)).checkpoint
    chains = text_chains(request(tmp_path, source, weights=checkpoint, max_drop_pp=6.0))
    assert not chains.fits
    assert chains.splits.trains
    assert "exits trained on" in chains.notes[0]
    named = small.data(tmp_path / "named", each=100)
    for file in named.iterdir():
        file.write_text(file.read_text().replace(",card", ",karte"))
    with pytest.raises(InputError) as caught:
        text_chains(request(tmp_path, (model, named), weights=checkpoint))
    assert caught.value.code == "ladder-classes"

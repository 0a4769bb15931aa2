"""From a Hugging Face folder and a CSV to a bundle that answers texts, in every engine, and what is refused on the way."""

import json
import shutil

import numpy as np
import pytest
import small_texts as small

import edgekit
from edgekit.build import api
from edgekit.build.fitting import fit
from edgekit.build.text import lower_litert, lower_onnx
from edgekit.build.text.checkpoint import read_text_checkpoint
from edgekit.build.text.integers import grids_of
from edgekit.build.text.rewrite import rewrite
from edgekit.spec.bundle import open_bundle
from edgekit.spec.errors import GoalError, InputError

pytest.importorskip("transformers", reason="it makes the folder")

ENGINES = ("executorch", "litert", "onnx")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    place = tmp_path_factory.mktemp("source")
    return f"hf:{small.folder(place / 'tiny')}", small.data(place / "data")


@pytest.fixture(scope="module")
def fitted(source, tmp_path_factory):
    model, data = source
    result = fit(small.request(tmp_path_factory.mktemp("fitted"), model, data, epochs=6))
    assert result.networks[0].top1 > 0.9
    return result.checkpoint


@pytest.fixture(scope="module")
def built(source, fitted, tmp_path_factory):
    """(result, bundle) of a guarded build for all engines."""
    place = tmp_path_factory.mktemp("built")
    request = small.request(place, source[0], source[1], weights=fitted, engines=ENGINES, max_drop_pp=10.0)
    return api.build(request), request.out


@pytest.mark.slow
def test_the_promise_is_kept_by_every_engine(built):
    result, _ = built
    assert result.guarded.chosen.name == "as built"
    assert set(result.guarded.chosen.promises) == {f"{engine}-int8" for engine in ENGINES}
    for row in result.payloads:
        assert row.agreement_top1 >= 0.97
        assert row.n == 120
    assert "decided on 90, reported on 120" in result.notes[0]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_bundle_answers_texts(built, engine):
    with edgekit.open(built[1], engine=engine) as model:
        assert model.labels == ("card", "parcel", "train")
        for text, label in (("Where is my parcel?", "parcel"), ("the PIN again", "card"), ("platform late", "train")):
            assert model.run(text).labels[0].name == label
        short, long = model.run("pin"), model.run("where is the delivery " * 9)
        assert (short.bucket_tokens, short.truncated) == (8, False)
        assert (long.bucket_tokens, long.truncated) == (16, True)
        assert all(result.ok for result in model.verify())


@pytest.mark.slow
def test_payloads_hold_the_same_integers(built, fitted):
    grids = grids_of(rewrite(read_text_checkpoint(fitted)[0]))
    for code, file in ((lower_onnx, "onnx-int8.onnx"), (lower_litert, "litert-int8.tflite")):
        held = {array.tobytes() for array in code.weights_of((built[1] / "payloads" / file).read_bytes())}
        assert {name for name, grid in grids.items() if grid.values.tobytes() not in held} == set()


@pytest.mark.slow
def test_sentence_embeddings_have_unit_length(source, tmp_path):
    request = small.request(tmp_path, source[0], precisions=("int8", "fp32"))
    result = api.build(request)
    assert result.networks == ()
    with edgekit.open(request.out, precision="fp32") as model:
        one, same, other = (model.embed(text) for text in ("my card", "my card please", "train delay"))
    assert np.linalg.norm(one) == pytest.approx(1, abs=1e-5)
    assert one @ same > one @ other


@pytest.mark.slow
def test_what_cannot_be_kept_is_repaired_then_refused_with_its_layers(source, fitted, tmp_path, monkeypatch):
    monkeypatch.setattr("edgekit.bench.promise.Promise.keeps", lambda self, most: False)
    request = small.request(tmp_path, source[0], source[1], weights=fitted, max_drop_pp=10.0)
    told = []
    with pytest.raises(GoalError) as caught:
        api.build(request, observe=lambda event: told.append(event.note) if event.kind == "told" else None)
    assert caught.value.code == "max-drop"
    assert [note.partition(":")[0] for note in told] == ["as built", "mixed precision", "training"]
    assert "layers." in caught.value.what
    with open_bundle(request.out) as reader:
        assert reader.manifest.text is not None


@pytest.mark.slow
def test_a_student_learns_from_a_teacher(source, fitted, tmp_path):
    from edgekit import catalog
    from edgekit.build.compression import Teacher

    model = f"hf:{small.folder(tmp_path / 'student', hidden=32, layers=1)}"
    teacher = Teacher(catalog.find_model(source[0]), fitted)
    result = fit(small.request(tmp_path, model, source[1], epochs=6, teacher=teacher))
    assert result.networks[0].top1 > 0.9
    assert "distill" in json.loads((result.checkpoint / "history.json").read_text())


def test_plan_names_the_stages(source, tmp_path):
    plan = api.plan(small.request(tmp_path, source[0], source[1]))
    names = [stage.name for chain in plan.chains for stage in chain.stages]
    assert names == ["load-text", "fit-text", "lower-text", "pack-text", "answer-text", "answer-text", "judge-text"] or set(
        names
    ) == {"load-text", "fit-text", "lower-text", "pack-text", "answer-text", "judge-text"}
    assert not (tmp_path / "store").exists()


def test_what_is_refused_before_anything_slow(source, tmp_path):
    model, data = source
    cases = {
        "argument": {"prune": 0.4},
        "data-missing": {"data_dir": None, "max_drop_pp": 1.0},
        "data-few": {"max_drop_pp": 0.5},
    }
    for code, given in cases.items():
        options = {"data_dir": data, **given}
        with pytest.raises(InputError) as caught:
            api.build(small.request(tmp_path, model, options.pop("data_dir"), **options))
        assert caught.value.code == code
    assert not (tmp_path / "store" / "entries").exists()


@pytest.mark.parametrize(
    ("code", "spoil"),
    [
        ("hf-family", lambda place: _config(place, model_type="t5")),
        ("hf-weights", lambda place: (place / "model.safetensors").unlink()),
        ("hf-weights", lambda place: _config(place, hidden_size=48)),
        ("tokenizer", lambda place: (place / "vocab.txt").unlink()),
        ("tokenizer-size", lambda place: (place / "vocab.txt").write_text("\n".join(small.SPECIAL) + "\n")),
        ("hf-config", lambda place: (place / "config.json").write_text("{")),
    ],
)
def test_a_folder_that_is_no_good(source, tmp_path, code, spoil):
    place = tmp_path / "spoilt"
    shutil.copytree(source[0].removeprefix("hf:"), place)
    if code == "tokenizer-size":
        _config(place, vocab_size=500)
    else:
        spoil(place)
    with pytest.raises(InputError) as caught:
        api.build(small.request(tmp_path, f"hf:{place}"))
    assert caught.value.code == code


def test_texts_longer_than_the_network_reads(source, tmp_path):
    with pytest.raises(InputError) as caught:
        api.build(small.request(tmp_path, source[0], tokens=(16, 64)))
    assert caught.value.code == "text-buckets"


def _config(place, **changes):
    path = place / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

"""Builds and fits of networks that read text that cannot be: each is refused before a stage begins."""

import dataclasses
import json
import shutil

import pytest
import small_texts as small

import edgekit
from edgekit import catalog
from edgekit.build import api
from edgekit.build.compression import Compression, Teacher
from edgekit.build.fitting import fit
from edgekit.spec.errors import InputError, UnknownName

pytest.importorskip("transformers", reason="it makes the folder")
pytest.importorskip("tokenizers")


@pytest.fixture(scope="module")
def hf(tmp_path_factory):
    return small.folder(tmp_path_factory.mktemp("source") / "tiny")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small.data(tmp_path_factory.mktemp("data"), each=20)


@pytest.fixture(scope="module")
def fitted(hf, data, tmp_path_factory):
    """A checkpoint that tells card, parcel and train apart."""
    return fit(small.request(tmp_path_factory.mktemp("fitted"), f"hf:{hf}", data, epochs=1)).checkpoint


@pytest.fixture
def spoilt(hf, tmp_path):
    """Copy the folder with other entries in its config.json."""

    def copy(**changes):
        place = tmp_path / "spoilt"
        shutil.copytree(hf, place)
        path = place / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
        return place

    return copy


def refused(place, model, data_dir=None, *, kind=InputError, do=api.plan, **options):
    """The error of a plan, which runs no stage."""
    with pytest.raises(kind) as caught:
        do(small.request(place, model, data_dir, **options))
    assert all((caught.value.what, caught.value.where, caught.value.fix))
    assert not (place / "store").exists()
    return caught.value


def relabelled(path, data, **names):
    """The training texts with other names of their classes; without those named None."""
    rows = [line.rpartition(",") for line in (data / "train.csv").read_text().splitlines()[1:]]
    kept = [f"{text},{names.get(label, label)}" for text, _, label in rows if names.get(label, label) is not None]
    path.write_text("\n".join(["text,label", *kept]) + "\n")
    return path


CLASSIFIER = ["BertForSequenceClassification"]


@pytest.mark.parametrize(
    "changes",
    [
        {"num_attention_heads": 0},
        {"intermediate_size": 0},
        {"architectures": CLASSIFIER, "num_labels": "many"},
        {"architectures": CLASSIFIER, "id2label": 3},
        {"architectures": "BertForSequenceClassification", "num_labels": 0},
    ],
    ids=repr,
)
def test_a_config_that_misstates_something(spoilt, tmp_path, changes):
    assert refused(tmp_path, f"hf:{spoilt(**changes)}").code == "hf-config"


def test_names_of_classes_may_be_a_list(spoilt, tmp_path):
    from edgekit.build.text.config import read_classes

    assert read_classes(spoilt(architectures=CLASSIFIER, id2label=["no", "yes"])) == ("no", "yes")


@pytest.mark.parametrize("file", ["model.safetensors", "vocab.txt"])
def test_a_plan_misses_files_of_a_folder(spoilt, tmp_path, file):
    place = spoilt()
    (place / file).unlink()
    assert refused(tmp_path, f"hf:{place}").code == ("tokenizer" if file == "vocab.txt" else "hf-weights")


def test_a_vocabulary_of_which_most_rows_are_unused_is_another_networks(spoilt, tmp_path):
    place = spoilt()
    (place / "vocab.txt").write_text("\n".join((*small.SPECIAL, "a", "b")) + "\n")
    error = refused(tmp_path, f"hf:{place}")
    assert (error.code, error.what) == ("tokenizer-size", "the tokenizer knows 7 tokens, the network 60")


def test_lengths(hf, tmp_path):
    error = refused(tmp_path, f"hf:{hf}", tokens=(8, 16, 512))
    assert (error.code, error.fix) == ("text-buckets", "--tokens 8,16")
    assert refused(tmp_path, f"hf:{hf}", tokens=(16, 8)).code == "text-buckets"
    assert refused(tmp_path, f"hf:{hf}", tokens=(0,)).code == "text-buckets"


def test_lengths_that_nobody_named_are_those_that_the_network_reads(hf, tmp_path):
    from edgekit.build.text.chains import text_chains

    assert text_chains(small.request(tmp_path, f"hf:{hf}", tokens=())).tokens == (16, 32)


@pytest.mark.parametrize(("precision", "engine"), [("int8-static", "litert"), ("int8-weights", "executorch")])
def test_a_precision_that_an_engine_has_not(hf, tmp_path, precision, engine):
    error = refused(tmp_path, f"hf:{hf}", engines=("onnx", engine), precisions=("int8", precision))
    assert (error.code, engine in error.what) == ("text-precision", True)


@pytest.mark.parametrize("options", [{"engines": ("tflm",)}, {"precisions": ("int4",)}], ids=repr)
def test_names_that_nobody_knows(hf, tmp_path, options):
    refused(tmp_path, f"hf:{hf}", kind=UnknownName, **options)


@pytest.mark.parametrize("name", ["bert_base", "mobilebert"])
def test_weights_of_another_network(hf, tmp_path, name):
    error = refused(tmp_path, name, weights=hf)
    assert (error.code, error.fix) == ("weights", f"--model hf:{hf}")


def test_weights_of_another_network_than_the_folder_has(hf, tmp_path):
    other = small.folder(tmp_path / "other", layers=1)
    assert refused(tmp_path, f"hf:{hf}", weights=other).code == "weights"


def test_a_teacher_must_read_the_same_tokens(hf, data, tmp_path):
    other = small.folder(tmp_path / "other")
    words = (other / "vocab.txt").read_text().split()
    (other / "vocab.txt").write_text("\n".join([*words[:-2], words[-1], words[-2]]) + "\n")
    teacher = Teacher(catalog.find_model(f"hf:{other}"))
    for do in (api.plan, fit):
        assert refused(tmp_path, f"hf:{hf}", data, do=do, teacher=teacher).code == "teacher-tokens"


def test_a_teacher_must_know_the_classes(hf, data, fitted, tmp_path):
    teacher = Teacher(catalog.find_model(f"hf:{hf}"), fitted)
    two = relabelled(tmp_path / "two.csv", data, train=None)
    assert refused(tmp_path, f"hf:{hf}", two, teacher=teacher).code == "teacher-classes"
    api.plan(small.request(tmp_path, f"hf:{hf}", data, teacher=teacher))


def test_a_teacher_must_see_what_the_student_sees(hf, data, tmp_path):
    teacher = Teacher(catalog.find_model("timm:resnet18"))
    assert refused(tmp_path, f"hf:{hf}", data, teacher=teacher).code == "teacher-kind"


def test_unlabelled_texts_are_read_before_anything_is_trained(hf, data, tmp_path):
    (tmp_path / "more.csv").write_bytes(b"text\ncaf\xe9\n")
    teacher = Teacher(catalog.find_model(f"hf:{hf}"))
    error = refused(tmp_path, f"hf:{hf}", data, teacher=teacher, unlabelled=tmp_path / "more.csv", do=fit)
    assert (error.code, error.where) == ("data-text", f"{tmp_path / 'more.csv'}:2")


def test_a_network_of_other_classes_is_fitted_and_one_of_other_names_is_judged_without_labels(hf, data, fitted, tmp_path):
    def planned(file):
        plan = api.plan(small.request(tmp_path, f"hf:{hf}", file, weights=fitted))
        return [stage.name for chain in plan.chains for stage in chain.stages], " ".join(plan.notes)

    assert "fit-text" in planned(relabelled(tmp_path / "two.csv", data, train=None, card="karte"))[0]
    stages, notes = planned(relabelled(tmp_path / "named.csv", data, card="karte"))
    assert "fit-text" not in stages
    assert "not by labels" in notes
    stages, notes = planned(data)
    assert "fit-text" not in stages
    assert "not by labels" not in notes


def test_what_is_promised_without_labels_is_agreement(hf, data, fitted, tmp_path):
    pytest.importorskip("onnxruntime")
    named = relabelled(tmp_path / "named.csv", data, card="karte")
    result = api.build(small.request(tmp_path, f"hf:{hf}", named, weights=fitted, tokens=(8,), max_drop_pp=50.0))
    assert result.guarded.metric == "agreement with float"


@pytest.mark.parametrize(
    ("name", "fits", "wish"),
    [
        ("sentence-embedding", False, {"epochs": 3}),
        ("sentence-embedding", True, {}),
        ("text-classification", False, {"epochs": 0}),
    ],
)
def test_a_task_that_the_network_would_not_have(hf, data, fitted, tmp_path, name, fits, wish):
    request = small.request(tmp_path, f"hf:{hf}", data, weights=fitted if fits else None, **wish)
    with pytest.raises(InputError) as caught:
        api.plan(dataclasses.replace(request, task=name))
    assert (caught.value.code, caught.value.where) == ("task", "--task")


def test_build_from_python(hf, data, fitted, tmp_path):
    out = tmp_path / "bundle"
    options = {"out": out, "engines": ("onnx",)}
    cases = (
        ("argument", "efficientnet_lite0", {"precisions": ("int8-static",)}),
        ("argument", "efficientnet_lite0", {"tokens": (8,)}),
        ("weights", "efficientnet_lite0", {"weights": fitted}),
        ("teacher-kind", "timm:resnet18", {"compression": Compression(teacher=Teacher(catalog.find_model(f"hf:{hf}")))}),
        ("text-buckets", f"hf:{hf}", {"tokens": (16, 64)}),
        ("task", f"hf:{hf}", {"task": "sentence-embedding", "data": data, "compression": Compression(epochs=1)}),
    )
    for code, model, more in cases:
        with pytest.raises(InputError) as caught:
            edgekit.build(model, **options, **more)
        assert caught.value.code == code
    assert not out.exists()


def test_what_a_text_network_is_trained_with(hf, data, tmp_path):
    from edgekit.build.text.chains import text_chains

    training = text_chains(small.request(tmp_path, f"hf:{hf}", data, batch_size=8, epochs=7)).training
    assert (training.batch_size, training.micro_batch, training.epochs) == (8, 8, 7)
    assert refused(tmp_path, f"hf:{hf}", data, recovery_epochs=2).where == "--recovery-epochs"

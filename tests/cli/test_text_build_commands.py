"""build and fit of networks that read text from the command line: what is refused, in one error and before anything slow."""

import json
from pathlib import Path

import pytest

TEXTS = "text,label\nmy card,card\nmy parcel,parcel\n"


@pytest.fixture
def files(edgekit_):
    """A folder as Hugging Face writes it, CSVs, photos, and checkpoints of both kinds; none of them is whole."""
    for name, facts in (
        ("text", {"task": "text-classification"}),
        ("image", {"task": "image-classification", "resolution_px": 32}),
    ):
        Path(name).mkdir()
        Path(name, "model.json").write_text(json.dumps(facts))
    Path("hf").mkdir()
    Path("hf/config.json").write_text(json.dumps({"model_type": "bert"}))
    for name in ("texts.csv", "TEXTS.CSV"):
        Path(name).write_text(TEXTS)
    Path("photos").mkdir()
    Path("photos/one.png").write_bytes(b"")
    Path("state.pth").write_bytes(b"x")
    Path("plain.txt").write_text("my card\n")
    return edgekit_


TAUGHT = ("--model", "hf:hf", "--data", "texts.csv", "--teacher", "hf:hf")


@pytest.mark.parametrize(
    ("arguments", "code", "where"),
    [
        (("--model", "hf:none"), "hf-folder", "none"),
        (("--model", "hf:texts.csv"), "hf-folder", "texts.csv"),
        (("--model", "hf:hf", "--data", "plain.txt"), "data-kind", "--data"),
        (("--model", "hf:hf", "--weights", "none"), "weights-missing", "--weights"),
        (("--model", "hf:hf", "--weights", "state.pth"), "weights-kind", "--weights"),
        (("--model", "hf:hf", "--weights", "image"), "weights", "--weights"),
        (("--model", "efficientnet_lite0", "--weights", "text"), "weights", "--weights"),
        (("--model", "efficientnet_lite0", "--data", "texts.csv"), "data-kind", "--data"),
        (("--model", "efficientnet_lite0", "--tokens", "8"), "argument", "--tokens"),
        (("--model", "efficientnet_lite0", "--data", "photos", "--teacher", "hf:hf"), "teacher-kind", "--teacher"),
        (("--model", "hf:hf", "--data", "texts.csv", "--teacher", "efficientnet_lite0"), "teacher-kind", "--teacher"),
        ((*TAUGHT, "--unlabelled", "plain.txt"), "data-kind", "--unlabelled"),
        ((*TAUGHT, "--unlabelled", "none.csv"), "data-missing", "--unlabelled"),
        ((*TAUGHT, "--teacher-weights", "state.pth"), "weights-kind", "--teacher-weights"),
        ((*TAUGHT, "--teacher-weights", "image"), "weights", "--teacher-weights"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("verb", ["build", "fit"])
def test_refused(files, verb, arguments, code, where):
    photos = arguments[1] == "efficientnet_lite0"
    needed = ("--target", "host") if verb == "build" else ()
    if "--data" not in arguments:
        needed = (*needed, "--data", "photos" if photos else "texts.csv")
    before = sorted(Path.cwd().rglob("*"))
    done = files(verb, *arguments, *needed, "--json")
    error = done.document["error"]
    assert (done.code, error["code"], error["where"]) == (2, code, where)
    assert error["what"]
    assert error["fix"]
    assert sorted(Path.cwd().rglob("*")) == before


@pytest.mark.parametrize(
    ("option", "code"),
    [
        (("--task", "text-classification"), "argument"),
        (("--precision", "int8,int8-static"), "argument"),
        (("--task", "image-classification"), "usage"),
        (("--tokens", "16,8"), "usage"),
        (("--tokens", "x"), "usage"),
        (("--precision", "int4"), "unknown-precision"),
    ],
    ids=repr,
)
def test_options_of_build(files, option, code):
    done = files("build", "--model", "efficientnet_lite0", "--target", "host", *option, "--json")
    assert (done.code, done.document["error"]["code"]) == (2, code)


def test_a_csv_in_capitals_is_one(files, fake_api):
    asked = []
    fake_api.plan = asked.append
    files("build", "--model", "hf:hf", "--target", "host", "--data", "TEXTS.CSV", "--dry-run")
    assert asked[0].data_dir == Path("TEXTS.CSV")


def test_unlabelled_texts_and_lengths_arrive(files, fake_api):
    asked = []
    fake_api.plan = asked.append
    files("build", *TAUGHT, "--unlabelled", "texts.csv", "--tokens", "8,16", "--target", "host", "--dry-run")
    assert asked[0].compression.unlabelled == Path("texts.csv")
    assert asked[0].tokens == (8, 16)

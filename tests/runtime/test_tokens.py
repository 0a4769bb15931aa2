"""Files of a tokenizer that cannot be read, and devices without the `tokenizers` library."""

import builtins
import json

import pytest
import tiny_text as tiny

import edgekit
from edgekit.runtime.tokens import check_examples, open_encode, shortened
from edgekit.spec.errors import BundleError

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")


class Files:
    """What is needed of an open bundle."""

    def __init__(self, **changed):
        good = {
            "tokenizer": tiny.tokenizer_json().encode(),
            "vocab": "".join(f"{token}\n" for token in tiny.VOCABULARY).encode(),
            "examples": json.dumps([{"text": "my card", "ids": [2, 5, 6, 3]}]).encode(),
        }
        self.files = good | changed

    def read(self, name):
        return self.files[name.partition(".")[0]]


@pytest.fixture
def no_library(monkeypatch):
    """`import tokenizers` fails, as on a small device."""
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.partition(".")[0] == "tokenizers":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)


def test_good_files():
    found = check_examples(Files(), tiny.TEXT)
    assert (found.ok, found.n, found.max_difference) == (True, 1, 0.0)


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"tokenizer": b"{}"}, "tokenizer.json"),
        ({"tokenizer": b"\xff"}, "tokenizer.json"),
        ({"vocab": b"[PAD]\n\xff\n"}, "vocab.txt"),
        ({"vocab": b"[PAD]\ncard\ncard\n"}, "vocab.txt"),
        ({"examples": b"no JSON"}, "examples.json"),
        ({"examples": b"[]"}, "examples.json"),
        ({"examples": b'[{"text": "card"}]'}, "examples.json"),
        ({"examples": b'{"text": "card"}'}, "examples.json"),
        ({"examples": b'[{"text": "card", "ids": 3}]'}, "examples.json"),
        ({"examples": b"\xff\xfe"}, "examples.json"),
    ],
    ids=repr,
)
def test_a_file_that_cannot_be_read(changed, where):
    with pytest.raises(BundleError) as caught:
        check_examples(Files(**changed), tiny.TEXT)
    assert (caught.value.code, caught.value.where) == ("bundle-tokenizer", where)


def test_one_of_two_tokenizers_that_differs_is_found():
    other = b"".join(token.encode() + b"\n" for token in (*tiny.VOCABULARY[:5], "card", "my", *tiny.VOCABULARY[7:]))
    found = check_examples(Files(vocab=other), tiny.TEXT)
    assert (found.ok, found.max_difference) == (False, 1.0)


def test_the_library_can_be_left_out():
    made = open_encode(Files(tokenizer=b"not even read"), tiny.TEXT, library=False)
    assert made("my card has arrived, zzz") == tiny.encode("my card has arrived, zzz")


def test_a_bundle_runs_without_the_library(tmp_path, no_library, monkeypatch):
    monkeypatch.setattr(tiny, "tokenizer_json", lambda: "{}")
    path = tiny.write(tmp_path / "b")
    with edgekit.open(path, engine="onnx") as model:
        assert model.logits("my card arrived!")[0] == pytest.approx(tiny.reference(tiny.encode("my card arrived!")), abs=1e-5)
        assert all(check.ok for check in model.verify())


@pytest.mark.parametrize(("ids", "kept"), [((2, 3), (2, 3)), ((2, 5, 6, 3), (2, 5, 6, 3)), ((2, 5, 6, 7, 8, 3), (2, 5, 6, 3))])
def test_shortened_keeps_the_end(ids, kept):
    assert shortened(ids, max_tokens=4) == kept

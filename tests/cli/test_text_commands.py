"""run, verify, inspect and bench on a real, tiny bundle of a network that reads text."""

import io
import sys
from pathlib import Path

import pytest
from PIL import Image

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")

sys.path.insert(0, str(Path(__file__).parents[1] / "runtime"))

import tiny_bundle
import tiny_text as tiny

SENTENCE = "my card has not arrived!"
LONG = "card " * 40


def best(text):
    return tiny.LABELS[int(tiny.reference(tiny.encode(text)).argmax())]


@pytest.fixture
def bundle(tmp_path):
    return tiny.write(tmp_path / "tiny")


@pytest.fixture
def stdin(monkeypatch):
    """Give a command these bytes on standard input."""
    return lambda data: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))


def test_run_on_one_text(edgekit_, bundle):
    done = edgekit_("run", bundle, "--text", SENTENCE, "--top", 2, "--threads", 1, "--json")
    assert done.code == 0, done.err
    document = done.document
    assert document["labels"][0]["name"] == best(SENTENCE)
    assert (document["tokens"], document["bucket_tokens"], document["truncated"]) == (9, 16, False)
    assert (document["engine"], document["rung"], document["refused"]) == ("onnx", "full", [])
    out = edgekit_("run", bundle, "--text", SENTENCE).out
    assert best(SENTENCE) in out
    assert "cut:" not in out


def test_run_on_a_text_that_is_too_long_says_that_it_was_cut(edgekit_, bundle):
    document = edgekit_("run", bundle, "--text", LONG, "--json").document
    assert (document["tokens"], document["bucket_tokens"], document["truncated"]) == (42, 16, True)
    assert "cut: 42 tokens, the bundle takes 16" in edgekit_("run", bundle, "--text", LONG).out


def test_run_on_an_empty_text(edgekit_, bundle):
    document = edgekit_("run", bundle, "--text", "", "--json").document
    assert document["tokens"] == 2
    assert document["labels"][0]["name"] == best("")


@pytest.mark.parametrize("how", ["file", "stdin"])
def test_run_on_a_text_a_line(edgekit_, bundle, stdin, how):
    data = b"\xef\xbb\xbf" + f"{SENTENCE}\r\n\ncaf\u00e9 late\n{LONG}\n".encode()
    Path("texts.txt").write_bytes(data)

    def run(*options):
        stdin(data)
        return edgekit_("run", bundle, "--text", "@texts.txt" if how == "file" else "-", *options)

    document = run("--json").document
    assert list(document) == ["results"]
    assert [each["tokens"] for each in document["results"]] == [9, 2, 4, 42]
    found = [each["labels"][0]["name"] for each in document["results"]]
    assert found[:3] == [best(text) for text in (SENTENCE, "", "caf\u00e9 late")]
    out = run("--top", 1).out
    assert [SENTENCE in out, "caf\u00e9 late" in out, "42 (cut)" in out] == [True] * 3


def test_a_file_of_one_line_gives_results_too(edgekit_, bundle):
    Path("one.txt").write_text("card")
    assert len(edgekit_("run", bundle, "--text", "@one.txt", "--json").document["results"]) == 1


def test_embeddings(edgekit_, tmp_path):
    path = tiny.write(tmp_path / "b", task="sentence-embedding")
    done = edgekit_("run", path, "--text", "my card", "--json")
    assert done.code == 0, done.err
    (row,) = done.document["embeddings"]
    assert row == pytest.approx(tiny.reference(tiny.encode("my card")).tolist(), abs=1e-5)
    printed = edgekit_("run", path, "--text", "my card").out.split()
    assert [float(value) for value in printed] == pytest.approx(row, abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "code", "where"),
    [
        ((), "run-input", "IMAGE"),
        (("photo.png",), "run-input", "IMAGE"),
        (("photo.png", "--text", "card"), "run-input", "IMAGE"),
        (("none.png",), "image-missing", "IMAGE"),
        (("--text", "@none.txt"), "input-missing", "--text"),
        (("--text", "@."), "input-missing", "--text"),
        (("--text", "@latin.txt"), "text-utf8", "latin.txt:2"),
        (("--text", "@empty.txt"), "text-type", "empty.txt"),
        (("--text", "\ud83d"), "text-utf8", "text"),
        (("--text", "card", "--precision", "int8-static"), "payload-missing", "bundle"),
    ],
    ids=repr,
)
def test_run_refuses(edgekit_, bundle, arguments, code, where):
    Image.new("RGB", (8, 8)).save("photo.png")
    Path("latin.txt").write_bytes(b"card\ncaf\xe9\n")
    Path("empty.txt").write_bytes(b"")
    done = edgekit_("run", bundle, *arguments, "--json")
    assert (done.code, done.document["error"]["code"], done.document["error"]["where"]) == (2, code, where)
    assert all(done.document["error"].values())


def test_run_refuses_standard_input_that_is_no_text(edgekit_, bundle, stdin):
    stdin(b"card\n\xff\n")
    error = edgekit_("run", bundle, "--text", "-", "--json").document["error"]
    assert (error["code"], error["where"]) == ("text-utf8", "standard input:2")


@pytest.mark.parametrize("arguments", [("--text", "card"), ("photo.png", "--text", "card")])
def test_run_refuses_a_text_for_a_network_that_sees_images(edgekit_, tmp_path, arguments):
    Image.new("RGB", (8, 8)).save("photo.png")
    done = edgekit_("run", tiny_bundle.write(tmp_path / "images"), *arguments, "--json")
    assert (done.code, done.document["error"]["code"]) == (2, "run-input")
    assert done.document["error"]["where"] == "--text"


def test_verify(edgekit_, bundle):
    done = edgekit_("verify", bundle, "--json")
    assert done.code == 0, done.err
    assert done.document["ok"] is True
    assert done.document["tokenizer"] == {"ok": True, "n": 4, "wrong": 0}
    out = edgekit_("verify", bundle).out
    assert "tokenizer: ok, 4 of 4 example texts give the recorded ids" in out
    assert out.endswith("\nverified\n")


def test_verify_says_in_its_own_line_that_the_tokenizer_differs(edgekit_, tmp_path):
    examples = [{"text": "card", "ids": [2, 5, 3]}, {"text": "card", "ids": [2, 6, 3]}]
    path = tiny.write(tmp_path / "b", examples=examples)
    done = edgekit_("verify", path, "--json")
    assert (done.code, done.document["ok"]) == (3, False)
    assert done.document["tokenizer"] == {"ok": False, "n": 2, "wrong": 1}
    assert done.document["engines"]["onnx"]["goldens"] is True
    done = edgekit_("verify", path)
    assert done.code == 3
    assert "tokenizer: FAIL, 1 of 2 example texts give the recorded ids" in done.out
    assert "NOT verified: the tokenizer does not give the recorded ids" in done.out


def test_verify_says_that_goldens_differ(edgekit_, tmp_path):
    done = edgekit_("verify", tiny.write(tmp_path / "b", wrong=1.0))
    assert done.code == 3
    assert "NOT verified: an engine does not give the golden outputs\n" in done.out
    assert "tokenizer: ok" in done.out


@pytest.mark.parametrize("what", ["file", "folder"])
def test_verify_on_texts_takes_the_validation_part(edgekit_, bundle, what):
    folder = Path("texts")
    folder.mkdir()
    (folder / "train.csv").write_text("text,category\n" + "card,lost\nlate,late\n" * 3)
    texts = (SENTENCE, "late", "late card")
    rows = "".join(f"{text},{best(text)}\n" for text in texts)
    (folder / "validation.csv").write_text(f"text,category\n{rows},late\nnot,{'lost' if best('not') != 'lost' else 'late'}\n")
    data = folder if what == "folder" else folder / "validation.csv"
    done = edgekit_("verify", bundle, "--data", data, "--json")
    assert done.code == 0, done.err or done.out
    engine = done.document["engines"]["onnx"]
    assert (engine["n"], engine["top1"], engine["top1_float"]) == (4, 0.75, 0.75)
    assert done.document["skipped"] == ["1 rows without text"]
    assert edgekit_("verify", bundle, "--data", data, "--limit", 2, "--json").document["engines"]["onnx"]["n"] == 2
    out = edgekit_("verify", bundle, "--data", data).out
    assert "texts" in out
    assert "images" not in out


@pytest.mark.parametrize(
    ("data", "code"), [("none.csv", "data-missing"), ("x.npz", "data-kind"), ("no.csv", "data-columns"), ("empty", "data-empty")]
)
def test_verify_refuses_data(edgekit_, bundle, data, code):
    Path("x.npz").write_bytes(b"x")
    Path("no.csv").write_text("a,b\n1,2\n")
    Path("empty").mkdir()
    done = edgekit_("verify", bundle, "--data", data, "--json")
    assert (done.code, done.document["error"]["code"]) == (2, code)


def test_verify_of_embeddings_judges_which_text_is_nearest(edgekit_, tmp_path):
    Path("texts.csv").write_text("text,label\nmy card,lost\nlate,late\nmy late card,other\n")
    done = edgekit_("verify", tiny.write(tmp_path / "b", task="sentence-embedding"), "--data", "texts.csv", "--json")
    assert done.code == 0, done.err
    engine = done.document["engines"]["onnx"]
    assert (engine["n"], engine["top1"], engine["agreement_float"]) == (3, None, 1.0)
    assert "embeddings are no classes" in done.document["note"]


def test_inspect(edgekit_, bundle):
    document = edgekit_("inspect", bundle, "--json").document
    assert document["preprocess"] is None
    assert document["text"]["max_tokens"] == tiny.BUCKETS[-1]
    assert document["payloads"][0]["tokens"] == list(tiny.BUCKETS)
    out = edgekit_("inspect", bundle).out
    assert "onnx-fp32 reads texts of 8, 16 tokens" in out
    assert " px" not in out


def test_bench(edgekit_, bundle):
    done = edgekit_("bench", bundle, "--runs", 3, "--json")
    assert done.code == 0, done.err
    assert [each["tokens"] for each in done.document["results"]] == list(tiny.BUCKETS)
    assert "onnx-fp32, 8 tokens" in edgekit_("bench", bundle, "--runs", 2).out


@pytest.mark.parametrize(
    ("name", "command"),
    [
        *((name, ("verify",)) for name in ("model.onnx", "vocab.txt", "tokenizer.json", "examples.json", "ids8.bin")),
        *((name, ("run", "--text", "card")) for name in ("model.onnx", "tokenizer.json", "labels.txt")),
    ],
    ids=str,
)
def test_a_damaged_bundle_is_refused(edgekit_, bundle, name, command):
    data = bytearray((bundle / name).read_bytes())
    data[len(data) // 2] ^= 1
    (bundle / name).write_bytes(data)
    done = edgekit_(command[0], bundle, *command[1:], "--json")
    assert done.code == 2
    assert done.document["error"]["code"] == "bundle-hash"


def test_every_key_is_documented(edgekit_, bundle):
    from test_json_keys import keys, section

    for command, options in (("run", ("--text", "card")), ("verify", ()), ("bench", ("--runs", 2))):
        document = edgekit_(command, bundle, *options, "--json").document
        document.pop("conditions", None)
        document["engines"] = list(document.get("engines", {}).values())
        missing = {key for key in keys(document) - {"engines"} if f"`{key}`" not in section(command)}
        assert missing == set(), command

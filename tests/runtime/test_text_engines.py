"""Text bundles on each engine: one file serves all buckets, in any order. Random weights prove plumbing."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import edgekit
from edgekit.runtime import engines
from edgekit.spec import manifest as m
from edgekit.spec.bundle import pack_zip, write_bundle
from edgekit.spec.errors import InputError

pytestmark = pytest.mark.slow

sys.path.insert(0, str(Path(__file__).parents[1] / "build"))

BUCKETS, OUTPUTS = (8, 16), 5
VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{i}" for i in range(196)))
SHORT, LONG = "w1 w2 w3", "w5 w6 w7 w8 w9 w10 w11 w12 w13"
CLOSE = 1e-4
"""Largest difference to torch's float32 answer, as a share of its largest value."""


def ids_of(text):
    return [2, *(VOCABULARY.index(word) for word in text.split()), 3]


def tokenizer_json():
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    made = Tokenizer(models.WordPiece({token: i for i, token in enumerate(VOCABULARY)}, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return made.to_str().encode()


@pytest.fixture(scope="module", params=["onnx", "executorch", "litert"])
def made(request, tmp_path_factory):
    """(engine, bundle, function from a text to torch's answer)."""
    for module in (
        "torch",
        "tokenizers",
        *{"onnx": ("onnxscript", "onnxruntime"), "litert": ("litert_torch",)}.get(request.param, ()),
    ):
        pytest.importorskip(module)
    if request.param == "executorch":
        pytest.importorskip("executorch")
    from text_toys import answer, toy

    plain = toy(outputs=OUTPUTS)
    lowered = importlib.import_module(f"edgekit.build.text.lower_{request.param}").lower(plain, tokens=BUCKETS, precision="fp32")

    def torch_says(text):
        ids = np.array([ids_of(text)])
        return answer(plain, ids, np.ones(ids.shape, np.float32))[0]

    rows = {n: np.full((1, n), -1, "<i4") for n in BUCKETS}
    for n, text in zip(BUCKETS, (SHORT, LONG), strict=True):
        rows[n][0, : len(ids_of(text))] = ids_of(text)
    wanted = {n: torch_says(text).astype("<f4") for n, text in zip(BUCKETS, (SHORT, LONG), strict=True)}
    contents = {f"ids{n}.bin": rows[n].tobytes() for n in BUCKETS} | {f"out{n}.bin": wanted[n].tobytes() for n in BUCKETS}
    contents |= {"network": lowered.payload, "tokenizer.json": tokenizer_json(), "vocab.txt": "\n".join(VOCABULARY).encode()}
    contents["examples.json"] = json.dumps([{"text": LONG, "ids": ids_of(LONG)}]).encode()
    entries = tuple(m.Entry("main", "network", b.method, b.inputs, b.outputs) for b in lowered.buckets)
    goldens = tuple(m.GoldenOutputs("main", f"out{n}.bin", "float32", (1, OUTPUTS), 1e-3, n) for n in BUCKETS)
    payload = m.Payload(f"{request.param}-fp32", request.param, "fp32", entries, m.Placement("", None, ()), goldens)
    manifest = m.Manifest(
        m.FORMAT,
        m.ModelInfo("toy", "text-classification", OUTPUTS, "random", ""),
        m.TargetInfo("host", (request.param,)),
        None,
        (m.Rung("main"),),
        (payload,),
        tuple(m.GoldenInputs("main", f"ids{n}.bin", (1, n)) for n in BUCKETS),
        None,
        {},
        (),
        m.Text("tokenizer.json", "vocab.txt", True, True, True, 2, 3, 0, 1, BUCKETS[-1], "examples.json"),
    )
    out = tmp_path_factory.mktemp("texts") / "bundle"
    write_bundle(manifest, contents, out)
    return request.param, out, torch_says


def test_buckets_take_turns_on_one_load(made, monkeypatch):
    name, path, torch_says = made
    engine, loads = engines.find(name), []
    load = engine.load

    def counted(path, entry, *, threads):
        loads.append(entry.method)
        return load(path, entry, threads=threads)

    monkeypatch.setattr(engine, "load", counted)
    with edgekit.open(path, engine=name, threads=1) as model:
        for text, bucket in ((SHORT, 8), (LONG, 16), (SHORT, 8), ("", 8), (LONG, 16)):
            wanted = torch_says(text)
            assert np.abs(model.logits(text)[0] - wanted).max() <= CLOSE * np.abs(wanted).max()
            result = model.run(text)
            assert result.bucket_tokens == bucket
            assert result.labels[0].index == int(wanted.argmax())
    assert len(loads) == 1


def test_goldens_do_not_close_what_still_runs(made):
    name, path, torch_says = made
    with edgekit.open(path, engine=name, threads=1) as model:
        assert all(check.ok for check in model.verify())
        for text in (LONG, SHORT):
            np.testing.assert_allclose(model.logits(text)[0], torch_says(text), atol=1e-3)
        assert all(check.ok for check in model.verify())
        np.testing.assert_allclose(model.logits(LONG)[0], torch_says(LONG), atol=1e-3)
    for call in (model.run, model.logits):
        with pytest.raises(InputError, match="closed"):
            call(SHORT)


def test_one_file(made, tmp_path):
    name, path, torch_says = made
    pack_zip(path, tmp_path / "bundle.ekb")
    with edgekit.open(tmp_path / "bundle.ekb", engine=name, threads=1) as model:
        np.testing.assert_allclose(model.logits([LONG, SHORT]), [torch_says(LONG), torch_says(SHORT)], atol=1e-3)


def test_a_longer_text_is_cut_before_its_end(made):
    name, path, torch_says = made
    with edgekit.open(path, engine=name, threads=1) as model:
        words = [f"w{i}" for i in range(1, 40)]
        result = model.run(" ".join(words))
        assert (result.tokens, result.bucket_tokens, result.truncated) == (41, 16, True)
        np.testing.assert_allclose(model.logits(" ".join(words))[0], torch_says(" ".join(words[:14])), atol=1e-3)

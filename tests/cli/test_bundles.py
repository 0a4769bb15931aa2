"""run, verify, inspect and bench on a real, tiny bundle."""

import numpy as np
import pytest
from PIL import Image
from tiny_bundle import PIXELS, write

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


@pytest.fixture
def bundle(tmp_path):
    return write(tmp_path / "tiny")


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "photo.png"
    Image.fromarray(PIXELS[0]).save(path)
    return path


def test_run(edgekit_, bundle, photo):
    done = edgekit_("run", bundle, photo, "--top", 2, "--threads", 1, "--json")
    assert done.code == 0, done.err
    document = done.document
    assert len(document["labels"]) == 2
    assert {"name", "score"} <= set(document["labels"][0])
    assert document["engine"] == "onnx"
    assert document["delegate"] == "CPUExecutionProvider"
    assert document["rung"] == "full"
    assert set(document["latency_ms"]) == {"pre", "inference", "post"}
    assert document["refused"] == []
    done = edgekit_("run", bundle, photo)
    assert document["labels"][0]["name"] in done.out
    assert "onnx fp32 on CPUExecutionProvider" in done.out


@pytest.mark.parametrize(
    ("options", "code"), [(("--engine", "litert"), "payload-missing"), (("--precision", "int8"), "payload-missing")]
)
def test_run_refuses_what_the_bundle_does_not_hold(edgekit_, bundle, photo, options, code):
    done = edgekit_("run", bundle, photo, *options, "--json")
    assert (done.code, done.document["error"]["code"]) == (2, code)


def test_run_refuses_a_file_that_is_no_image(edgekit_, bundle, tmp_path):
    (tmp_path / "x.jpg").write_text("no image")
    done = edgekit_("run", bundle, tmp_path / "x.jpg", "--json")
    assert done.code == 2
    assert "x.jpg" in str(done.document["error"])


def test_verify(edgekit_, bundle):
    done = edgekit_("verify", bundle, "--json")
    assert done.code == 0, done.err
    assert done.document["ok"] is True
    assert {"goldens", "n", "top1", "top1_float", "drop_pp", "interval_pp"} <= set(done.document["engines"]["onnx"])
    assert done.document["pairs"] == []
    assert "verified" in edgekit_("verify", bundle).out


def test_verify_with_labelled_images(edgekit_, bundle, tmp_path):
    rng = np.random.default_rng(3)
    for name in ("ant", "bee"):
        (tmp_path / "data" / name).mkdir(parents=True)
        for index in range(3):
            pixels = rng.integers(0, 256, (40, 40, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "data" / name / f"{index}.png")
    (tmp_path / "data" / "bee" / "broken.png").write_bytes(b"no photo")
    done = edgekit_("verify", bundle, "--data", tmp_path / "data", "--limit", 6, "--json")
    assert done.code == 0, done.err or done.out
    engine = done.document["engines"]["onnx"]
    assert engine["n"] == 6
    assert engine["top1"] is not None
    done = edgekit_("verify", bundle, "--data", tmp_path / "data")
    assert done.code == 0
    assert "skipped" in done.out
    assert "broken.png" in done.out


def test_verify_says_which_bundle_does_not_keep_its_word(edgekit_, tmp_path):
    done = edgekit_("verify", write(tmp_path / "liar", wrong=1.0), "--json")
    assert done.code == 3
    assert done.document["ok"] is False
    assert done.document["engines"]["onnx"]["goldens"] is False
    assert "NOT verified" in edgekit_("verify", tmp_path / "liar").out


@pytest.mark.parametrize("name", ["model.onnx", "pixels.bin", "manifest.json"])
@pytest.mark.parametrize("command", ["verify", "inspect", "bench", "run"])
def test_a_damaged_bundle_is_refused(edgekit_, bundle, photo, name, command):
    data = bytearray((bundle / name).read_bytes())
    data[len(data) // 2] ^= 1
    (bundle / name).write_bytes(data)
    done = edgekit_(command, bundle, *([photo] if command == "run" else []), "--json")
    assert done.code == 2
    assert done.document["error"]["code"].startswith("bundle-")
    assert all(done.document["error"].values())


def test_inspect(edgekit_, bundle):
    done = edgekit_("inspect", bundle, "--json")
    assert done.code == 0, done.err
    document = done.document
    (payload,) = document["payloads"]
    assert {"engine", "precision", "operators", "delegate_calls", "size_bytes"} <= set(payload)
    assert all({"type", "dtype", "count"} <= set(operator) for operator in payload["operators"])
    assert document["rungs"][0]["name"] == "full"
    assert document["provenance"] == {"edgekit": "test"}
    out = edgekit_("inspect", bundle).out
    assert "Gemm" in out
    assert document["digest"] in out


def test_inspect_without_the_builder_says_so(edgekit_, bundle, monkeypatch):
    from edgekit.cli import inspect

    monkeypatch.setattr(inspect.importlib.util, "find_spec", lambda name: None)
    done = edgekit_("inspect", bundle)
    assert "operators as the builder recorded them" in done.out
    assert edgekit_("inspect", bundle, "--json").document["payloads"][0]["operators_from"] == "the manifest"


def test_bench(edgekit_, bundle, tmp_path):
    other = write(tmp_path / "other", wrong=1.0)
    done = edgekit_("bench", bundle, "--runs", 5, "--json")
    assert done.code == 0, done.err
    (result,) = done.document["results"]
    keys = {"engine", "precision", "threads", "n", "cpu_ms", "wall_ms_p50", "wall_ms_p99", "peak_rss_mb"}
    assert keys <= set(result)
    assert result["n"] == 5
    done = edgekit_("bench", bundle, "--against", other, "--runs", 5, "--json")
    assert set(done.document["ratio"]) >= {"cpu", "interval"}
    out = edgekit_("bench", bundle, "--against", other, "--runs", 5, "--engine", "onnx").out
    assert "onnx-fp32" in out
    assert "x (" in out

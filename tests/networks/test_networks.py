"""Every built-in network on every engine: integer throughout, one delegate, payloads that agree."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

LITE0 = ("efficientnet_lite0", "--precision", "int8,fp16,fp32")
OTHERS = ("efficientnet_lite1", "efficientnet_lite2", "mobilenet_v2", "mobilenet_v3_small", "resnet18", "resnet50")
# Float weights are 4 bytes, INT8 ones 1 byte and some scales: the rest is structure.
MOST_OF_FP32 = {"int8": 0.30, "fp16": 0.52}


def of(document, precision):
    return {row["engine"]: row for row in document["payloads"] if row["precision"] == precision}


@pytest.mark.parametrize("name", OTHERS)
def test_a_network_becomes_three_payloads_that_agree(edgekit, built, name):
    """The share of equal answers is held by the build's own gate, on 64 photos."""
    bundle, document = built(name)
    assert set(of(document, "int8")) == {"executorch", "litert", "onnx"}
    check_operators(edgekit, bundle, name)
    check_pairs(edgekit, bundle, name, mean_steps=0.5)


def test_lite0_is_integer_and_its_payloads_agree(edgekit, built):
    bundle, _ = built(*LITE0)
    check_operators(edgekit, bundle, "efficientnet_lite0")
    check_pairs(edgekit, bundle, "efficientnet_lite0", mean_steps=0.15)


def check_operators(edgekit, bundle, name):
    code, document = edgekit("inspect", bundle)
    assert code == 0
    for payload in (p for p in document["payloads"] if p["precision"] == "int8"):
        heavy = [o for o in payload["operators"] if any(w in o["type"].lower() for w in ("conv", "gemm", "fully", "matmul"))]
        assert heavy, f"{name} {payload['engine']}: no convolution found"
        assert {o["dtype"] for o in heavy} <= {"int8", "uint8"}, f"{name} {payload['engine']}: {heavy}"
        if payload["engine"] == "executorch":
            assert payload["delegate_calls"] == 1, name


def check_pairs(edgekit, bundle, name, *, mean_steps):
    """On golden images: photos and extremes that no calibration saw."""
    code, document = edgekit("verify", bundle)
    assert code == 0
    assert document["ok"]
    pairs = [p for p in document["pairs"] if p["a"].endswith("int8")]
    assert len(pairs) == 3
    for pair in pairs:
        assert pair["mean_steps"] <= mean_steps, (name, pair)


def test_sizes_follow_the_precision(built):
    _, document = built(*LITE0)
    whole = of(document, "fp32")
    for precision, most in MOST_OF_FP32.items():
        for engine, row in of(document, precision).items():
            assert row["size_bytes"] <= most * whole[engine]["size_bytes"], (precision, engine)


def test_lite0_keeps_its_accuracy_on_labelled_photos(edgekit, built, photos):
    """The promise of the README on photos that were never used: at most one point lost, and the three engines give one answer."""
    bundle, _ = built(*LITE0)
    code, document = edgekit("verify", bundle, "--data", photos)
    assert code == 0
    results = [r for r in document["engines"].values() if r["precision"] == "int8"]
    assert len(results) == 3
    for result in results:
        assert result["n"] == 250
        assert result["drop_pp"] <= 1.0, result
        assert result["agreement_float"] >= 0.94, result
    pairs = {frozenset((p["a"], p["b"])): p for p in document["pairs"]}
    close = pairs[frozenset(("executorch-int8", "litert-int8"))]
    assert close["agreement_top1"] >= 0.995
    assert close["equal"] >= 0.99
    assert close["max_steps"] <= 2
    for engine in ("executorch-int8", "litert-int8"):
        pair = pairs[frozenset((engine, "onnx-int8"))]
        assert pair["agreement_top1"] >= 0.99
        assert pair["mean_steps"] <= 0.15


def test_the_same_inputs_give_the_same_digest_in_another_folder(edgekit, built, tmp_path):
    """Nothing of the machine's paths, times or order of files gets into a bundle: not even with an empty store."""
    _, first = built("mobilenet_v3_small")
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    arguments = ("build", "--model", "mobilenet_v3_small", "--target", "snapdragon865", "-o", "bundle", "--store", "store")
    code, second = edgekit(*arguments, cwd=elsewhere)
    assert code == 0, second
    assert not any(stage["cached"] for stage in second["stages"])
    assert second["digest"] == first["digest"]


def test_a_second_run_is_free(edgekit, built, tmp_path):
    """Load, export, quantize, lower, pack and judge all come from the store, within the five seconds that a person waits."""
    _, first = built("mobilenet_v3_small")
    code, again = edgekit(
        "build", "--model", "mobilenet_v3_small", "--target", "snapdragon865", "-o", tmp_path / "again",
        "--store", first["store"],
    )  # fmt: skip
    assert code == 0
    assert again["digest"] == first["digest"]
    assert all(stage["cached"] for stage in again["stages"])
    assert again["seconds"] <= 5


def test_a_bundle_runs_on_a_photo_with_each_engine(edgekit, built):
    from edgekit.build.data.photos import photo_path

    bundle, _ = built(*LITE0)
    photo = photo_path("skimage", "chelsea.png")
    for engine in ("executorch", "litert", "onnx", "auto"):
        code, document = edgekit("run", bundle, photo, "--engine", engine)
        assert code == 0
        assert "cat" in document["labels"][0]["name"], document
        assert document["rung"] == "main"
        assert set(document["latency_ms"]) >= {"pre", "inference", "post"}


def test_a_runtime_without_torch_answers_from_the_bundle(built):
    """numpy and one engine: the rest is forbidden in this process."""
    from edgekit.build.data.photos import photo_path

    bundle, _ = built(*LITE0)
    program = f"""
import sys
class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "onnx", "jsonschema", "yaml", "click", "rich") or name == "edgekit.build":
            raise ImportError("forbidden: " + name)
sys.meta_path.insert(0, Wall())
import json
import edgekit
with edgekit.open({str(bundle)!r}, engine="litert", precision="int8") as model:
    result = model.run({str(photo_path("skimage", "chelsea.png"))!r})
print(json.dumps([result.labels[0].name, result.engine]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    name, engine = json.loads(done.stdout.strip().splitlines()[-1])
    assert "cat" in name
    assert engine == "litert"

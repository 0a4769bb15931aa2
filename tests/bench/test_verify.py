import json

import numpy as np
import pytest

from edgekit.bench import lanes, verify_bundle
from edgekit.spec.errors import InputError, SetupError
from edgekit.spec.manifest import to_json
from tests.bench.small import CLASSES, SIDE, FakeEngine, bundle, float_logits, outputs_of, payload, pictures

ENGINES = ("executorch", "litert", "onnx")
IMAGES = np.random.default_rng(5).integers(0, 256, (40, 1, 1, 3), np.uint8).repeat(SIDE, 1).repeat(SIDE, 2)
LABELS = tuple(int(np.argmax(float_logits(image))) for image in IMAGES)


@pytest.fixture
def engines(monkeypatch):
    fakes = {name: FakeEngine() for name in ENGINES}
    monkeypatch.setattr(lanes, "find_engine", fakes.__getitem__)
    return fakes


@pytest.fixture
def int8(tmp_path):
    """ONNX with uint8 outputs, as on x86."""
    return bundle(tmp_path / "int8", [payload(n, "int8", 128 if n == "onnx" else 0) for n in ENGINES])


@pytest.fixture
def fp32(tmp_path):
    return bundle(tmp_path / "fp32", [payload("onnx", "fp32")])


def reference(_, pixels):
    return np.stack([float_logits(p) for p in pixels])


def test_goldens_alone(engines, int8):
    found = verify_bundle(int8)
    assert found.ok
    assert set(found.engines) == set(ENGINES)
    assert all(r.goldens and r.golden_max_steps == 0 and r.n == 0 for r in found.engines.values())
    assert [(p.a, p.b) for p in found.pairs] == [
        ("executorch-int8", "litert-int8"),
        ("executorch-int8", "onnx-int8"),
        ("litert-int8", "onnx-int8"),
    ]
    assert all(p.agreement_top1 == p.equal == 1 and p.max_steps == 0 for p in found.pairs)
    assert all(s.closed for e in engines.values() for s in e.sessions)


def test_an_engine_that_computes_something_else_is_seen(engines, int8):
    engines["litert"].shift = 2
    found = verify_bundle(int8)
    assert not found.ok
    assert [name for name, r in found.engines.items() if not r.goldens] == ["litert"]
    assert found.engines["litert"].golden_max_steps == 2
    assert {p.max_steps for p in found.pairs if "litert-int8" in (p.a, p.b)} == {2}


def test_outputs_that_are_no_numbers_are_no_proof(engines, tmp_path):
    broken = bundle(tmp_path / "b", [payload("onnx", "fp32")], goldens=lambda *a: outputs_of(*a) * np.float32("nan"))
    assert not verify_bundle(broken).ok


def test_quality_against_the_float_network(engines, int8):
    found = verify_bundle(int8, data=pictures(IMAGES, LABELS), float_logits=reference)
    for result in found.engines.values():
        assert result.n == 40
        assert result.top1_float == 1
        assert result.drop_pp == pytest.approx(100 * (1 - result.top1))
        assert result.interval_pp[0] <= result.drop_pp <= result.interval_pp[1]
        assert result.agreement_float == result.top1
    assert found.note == ""


def test_the_float_network_may_be_another_bundle_or_a_payload(engines, int8, fp32, tmp_path):
    data = pictures(IMAGES, LABELS)
    other = verify_bundle(int8, data=data, float_bundle=fp32).engines["onnx"]
    both = bundle(tmp_path / "both", [payload("onnx", "fp32"), payload("onnx", "int8", 128)])
    inside = verify_bundle(both, data=data).engines
    assert other.top1_float == inside["onnx"].top1_float == 1
    assert inside["onnx"].precision == "int8"
    assert inside["onnx-fp32"].precision == "fp32"


def test_without_a_float_network_accuracy_alone(engines, int8):
    result = verify_bundle(int8, data=pictures(IMAGES, LABELS)).engines["onnx"]
    assert result.top1 > 0.9
    assert result.top1_float is result.drop_pp is result.agreement_float is None


def test_without_labels_agreement_alone(engines, int8):
    found = verify_bundle(int8, data=pictures(IMAGES), float_logits=reference)
    assert found.engines["onnx"].top1 is None
    assert found.engines["onnx"].agreement_float > 0.9
    assert "not labelled" in found.note


def test_class_names_are_looked_up_in_the_bundle(engines, int8):
    order = ("dog", "cat", "bee", "ant")
    labels = tuple(3 - label for label in LABELS)
    found = verify_bundle(int8, data=pictures(IMAGES, labels, order), float_logits=reference)
    assert found.engines["onnx"].top1_float == 1


def test_foreign_class_names_are_not_judged(engines, int8):
    found = verify_bundle(int8, data=pictures(IMAGES, LABELS, ("x", "dog")), float_logits=reference)
    assert found.engines["onnx"].top1 is None
    assert "'x'" in found.note


def test_as_many_foreign_names_as_classes_count_in_order(engines, int8):
    found = verify_bundle(int8, data=pictures(IMAGES, LABELS, ("a", "b", "c", "d")), float_logits=reference)
    assert found.engines["onnx"].top1_float == 1


def test_a_label_that_the_network_does_not_have(engines, int8):
    with pytest.raises(InputError, match=str(CLASSES)):
        verify_bundle(int8, data=pictures(IMAGES, (CLASSES,) * 40))


def test_limit(engines, int8):
    assert verify_bundle(int8, data=pictures(IMAGES, LABELS), limit=7).engines["onnx"].n == 7


def test_missing_engines_are_named_and_the_others_verified(engines, int8):
    engines["litert"].installed = False
    found = verify_bundle(int8)
    assert found.ok
    assert [m.engine for m in found.missing] == ["litert"]
    for engine in engines.values():
        engine.installed = False
    with pytest.raises(SetupError, match="not installed"):
        verify_bundle(int8)


def test_json_has_the_documented_keys(engines, int8):
    found = verify_bundle(int8, data=pictures(IMAGES, LABELS), float_logits=reference)
    values = json.loads(json.dumps(to_json(found)))
    assert {"goldens", "n", "top1", "top1_float", "drop_pp", "interval_pp"} <= set(values["engines"]["onnx"])
    assert {"a", "b", "agreement_top1", "mean_steps", "max_steps"} <= set(values["pairs"][0])
    assert values["ok"] is True

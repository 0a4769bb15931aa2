"""Which payload runs: the race, its memory, and the reasons."""

import json
import time

import numpy as np
import pytest
import tiny_bundles
import tiny_payloads as tiny

import edgekit
from edgekit.runtime import engines, select, verdicts
from edgekit.runtime.results import Refusal
from edgekit.runtime.verdicts import Verdict, read_verdict, write_verdict
from edgekit.spec.errors import BundleError, InputError, SetupError


class FakeSession:
    def __init__(self, delay_ms, entry):
        self.delegate, self.fallback = "fake", ()
        self._delay_s, self._nhwc = delay_ms / 1e3, entry.inputs[0].layout == "NHWC"

    def run(self, x):
        time.sleep(self._delay_s)
        return (tiny.reference(x.transpose(0, 3, 1, 2) if self._nhwc else x),)

    def close(self):
        pass


class FakeEngine:
    """An engine that is right, and as slow as it is told to be."""

    def __init__(self, name, *, delay_ms=0.0, version="1.0", fails=None):
        self.NAME, self.INSTALL = name, f"pip install {name}"
        self.delay_ms, self.installed, self.fails, self.loads = delay_ms, version, fails, 0

    def version(self):
        return self.installed

    def load(self, path, entry, *, threads):
        if self.installed is None:
            raise SetupError(f"engine {self.NAME!r} cannot be imported", fix=self.INSTALL, code="engine-missing")
        self.loads += 1
        if self.fails:
            raise self.fails
        return FakeSession(self.delay_ms, entry)


@pytest.fixture
def fakes(monkeypatch):
    made = {
        "litert": FakeEngine("litert", delay_ms=1),
        "onnx": FakeEngine("onnx", delay_ms=6),
        "executorch": FakeEngine("executorch", version=None),
    }
    monkeypatch.setattr(engines, "find", made.__getitem__)
    return made


@pytest.fixture
def path(tmp_path):
    return tiny_bundles.write(tmp_path / "b", {"onnx": b"o", "litert": b"l", "executorch": b"e"})


def why(model):
    return {refusal.engine: refusal.why for refusal in model.refused}


def test_fastest_wins_and_the_others_hear_why(path, fakes):
    with edgekit.open(path) as model:
        assert model.engine == "litert"
        reasons = why(model)
    assert reasons["executorch"] == "not installed: pip install executorch"
    assert reasons["onnx"].startswith("slower: ")
    assert "ms here" in reasons["onnx"]


def test_verdict_is_remembered_with_its_reasons(path, fakes):
    with edgekit.open(path) as model:
        first = why(model)
    with edgekit.open(path) as model:
        assert model.engine == "litert"
        assert why(model) == first
    assert fakes["onnx"].loads == 1


@pytest.mark.parametrize("change", ["threads", "version", "installed", "bundle"])
def test_verdict_is_forgotten_when_the_question_changes(tmp_path, path, fakes, change):
    edgekit.open(path, threads=1).close()
    threads = 1
    if change == "threads":
        threads = 2
    elif change == "version":
        fakes["onnx"].installed = "1.1"
    elif change == "installed":
        fakes["executorch"].installed = "1.5"
    else:
        path = tiny_bundles.write(tmp_path / "other", {"onnx": b"o2", "litert": b"l", "executorch": b"e"})
    edgekit.open(path, threads=threads).close()
    assert fakes["onnx"].loads == 2


def test_wrong_goldens_lose_however_fast(tmp_path, fakes):
    path = tiny_bundles.write(tmp_path / "wrong", {"onnx": b"o", "litert": b"l"}, wrong=("litert",))
    with edgekit.open(path) as model:
        assert model.engine == "onnx"
        assert why(model)["litert"] == "fails its goldens: off by 9, accepted is 1"


def test_payload_that_does_not_load_loses(path, fakes):
    fakes["litert"].fails = BundleError("payload 'int8.tflite' cannot be loaded: why", code="payload-broken")
    with edgekit.open(path) as model:
        assert model.engine == "onnx"
        assert "cannot be loaded" in why(model)["litert"]


def test_passing_trouble_is_not_remembered(path, fakes):
    fakes["litert"].fails = SetupError("one thread pool", code="engine-threads")
    edgekit.open(path).close()
    fakes["litert"].fails = None
    with edgekit.open(path) as model:
        assert model.engine == "litert"


def test_winner_that_no_longer_loads_is_raced_again(path, fakes):
    edgekit.open(path).close()
    fakes["litert"].fails = BundleError("gone", code="payload-broken")
    with edgekit.open(path) as model:
        assert model.engine == "onnx"
        assert why(model)["litert"] == "gone"


def test_nothing_runs(path, fakes):
    for fake in fakes.values():
        fake.fails = BundleError("broken", code="payload-broken")
    with pytest.raises(BundleError, match="no payload of this bundle runs here: litert int8: broken; onnx int8: broken"):
        edgekit.open(path)


def test_no_engine_is_installed(path, fakes):
    for fake in fakes.values():
        fake.installed = None
    with pytest.raises(SetupError, match="no engine of this bundle is installed: executorch, litert, onnx") as caught:
        edgekit.open(path)
    assert caught.value.fix.startswith("pip install ")
    with pytest.raises(SetupError) as caught:
        edgekit.open(path, engine="onnx")
    assert caught.value.fix == "pip install onnx"


def test_explicit_engine_runs_without_a_race(path, fakes):
    with edgekit.open(path, engine="onnx") as model:
        assert (model.engine, model.refused) == ("onnx", ())
    assert fakes["litert"].loads == 0


@pytest.mark.parametrize("request_", [{"engine": "coreml"}, {"precision": "fp16"}, {"engine": "onnx", "precision": "fp32"}])
def test_payload_that_is_not_there(path, fakes, request_):
    with pytest.raises(InputError, match="the bundle has no") as caught:
        edgekit.open(path, **request_)
    assert caught.value.fix == "choose one of: onnx-int8, litert-int8, executorch-int8"


def test_order_is_the_targets(tmp_path):
    manifest = tiny_bundles.manifest(tuple(map(tiny_bundles.payload, ("onnx", "other", "litert"))), engines=("litert", "onnx"))
    assert [p.engine for p in select.matching(manifest, engine="auto", precision=None)] == ["litert", "onnx", "other"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"payload": "x"}', b'{"payload": "x", "refused": [1]}', b"\xff"])
def test_damaged_verdict_is_no_verdict(tmp_path, content):
    write_verdict("k", Verdict("p", (Refusal("onnx", "slow", "int8"),)))
    assert read_verdict("k") == Verdict("p", (Refusal("onnx", "slow", "int8"),))
    (file,) = (tmp_path / "cache" / "verdicts").iterdir()
    file.write_bytes(content)
    assert read_verdict("k") is None


def test_cache_that_cannot_be_written(tmp_path, path, fakes, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EDGEKIT_CACHE", str(tmp_path / "file"))
    for _ in range(2):
        with edgekit.open(path) as model:
            assert model.engine == "litert"
    assert fakes["onnx"].loads == 2


def test_verdict_names_no_path(path, fakes, tmp_path):
    edgekit.open(path).close()
    (file,) = (tmp_path / "cache" / "verdicts").iterdir()
    assert str(tmp_path) not in file.read_text()
    assert json.loads(file.read_text())["payload"] == "litert-int8"


def test_fingerprint_is_stable():
    assert verdicts.machine() == verdicts.machine()
    assert verdicts.usable_cpus() >= 1


def test_real_engines_race(bundle):
    with edgekit.open(bundle) as model:
        assert model.engine in ("litert", "onnx")
        assert len(model.refused) == 1
        np.testing.assert_array_equal(model.logits(tiny.golden_images()), tiny_bundles.expected())

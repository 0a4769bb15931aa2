"""Tiny payloads, written once a session, and a verdict cache of their own."""

import pytest
import tiny_bundles
import tiny_payloads


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("EDGEKIT_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def onnx_file(tmp_path_factory):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    path = tmp_path_factory.mktemp("onnx") / "tiny.onnx"
    tiny_payloads.write_onnx(path)
    return path


@pytest.fixture(scope="session")
def tflite_file(tmp_path_factory):
    pytest.importorskip("ai_edge_litert")
    path = tmp_path_factory.mktemp("tflite") / "tiny.tflite"
    tiny_payloads.write_tflite(path)
    return path


@pytest.fixture(scope="session")
def pte_file(tmp_path_factory):
    pytest.importorskip("executorch")
    pytest.importorskip("torch")
    path = tmp_path_factory.mktemp("pte") / "tiny.pte"
    tiny_payloads.write_pte(path)
    return path


@pytest.fixture(scope="session")
def payload_files(onnx_file, tflite_file, pte_file):
    """Engine -> payload file."""
    return {"executorch": pte_file, "litert": tflite_file, "onnx": onnx_file}


@pytest.fixture
def bundle(tmp_path, onnx_file, tflite_file):
    """A bundle with the two engines that load fast."""
    return tiny_bundles.write(tmp_path / "bundle", {"litert": tflite_file, "onnx": onnx_file})

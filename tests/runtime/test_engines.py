"""Real engines on a real payload: the same integers from all of them."""

import os
import sys
import threading
import time

import numpy as np
import pytest
import tiny_bundles
import tiny_payloads as tiny

from edgekit.runtime import engines
from edgekit.runtime.engines import litert, onnx
from edgekit.runtime.engines.pte import read_plans
from edgekit.runtime.engines.stderr import captured
from edgekit.spec.errors import BundleError, SetupError, UnknownName

NAMES = ("executorch", "litert", "onnx")


def tensor(engine, seed=3):
    x = np.random.default_rng(seed).integers(-128, 128, (1, 3, tiny.SIDE, tiny.SIDE)).astype(np.int8)
    return x, np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if engine == "litert" else x


@pytest.fixture(params=NAMES)
def engine(request):
    return request.param


@pytest.fixture
def session(engine, payload_files):
    loaded = engines.find(engine).load(payload_files[engine], tiny_bundles.entry(engine), threads=1)
    yield loaded
    loaded.close()
    loaded.close()


def test_all_engines_are_declared():
    assert engines.names() == NAMES
    with pytest.raises(UnknownName, match="did you mean onnx"):
        engines.find("onx")


def test_version_is_that_of_the_distribution(engine):
    version = engines.find(engine).version()
    assert version is not None
    assert version[0].isdigit()


@pytest.mark.parametrize("seed", range(5))
def test_integers_match_the_reference(engine, session, seed):
    x, given = tensor(engine, seed)
    assert tiny.is_far_from_a_tie(x)
    (logits,) = session.run(given)
    assert logits.dtype == np.int8
    np.testing.assert_array_equal(logits, tiny.reference(x))


def test_outputs_belong_to_the_caller(engine, session):
    _, first = tensor(engine, 1)
    _, second = tensor(engine, 2)
    kept = session.run(first)[0]
    copy = kept.copy()
    session.run(second)
    np.testing.assert_array_equal(kept, copy)


def test_delegate_is_what_really_runs(engine, session):
    wanted = {
        # The reshape at the end is a portable kernel: a view that XNNPACK does not take.
        "executorch": ("XNNPACK+CPU", ("aten::view_copy x 1",)),
        "litert": ("XNNPACK", ()),
        "onnx": ("CPUExecutionProvider", ()),
    }
    assert (session.delegate, session.fallback) == wanted[engine]


@pytest.mark.parametrize("keep", [0, 3, 100, 0.5, 0.99])
def test_truncated_payload_is_refused(engine, payload_files, tmp_path, keep):
    whole = payload_files[engine].read_bytes()
    path = tmp_path / payload_files[engine].name
    path.write_bytes(whole[: keep if isinstance(keep, int) else int(len(whole) * keep)])
    with pytest.raises(BundleError) as caught:
        engines.find(engine).load(path, tiny_bundles.entry(engine), threads=1)
    assert path.name in caught.value.what
    assert caught.value.fix


def test_edges_are_held_to_the_manifest(engine, payload_files):
    other = tiny_bundles.entry(engine, shift=128)
    with pytest.raises(BundleError, match=r"int8\[1, .* the manifest says uint8") as caught:
        engines.find(engine).load(payload_files[engine], other, threads=1)
    assert caught.value.code == "payload-mismatch"


def test_unknown_method_names_the_known_ones(payload_files):
    for name, known in (("executorch", "forward"), ("litert", "serving_default")):
        with pytest.raises(BundleError, match=f"no method 'nope', only {known}"):
            engines.find(name).load(payload_files[name], tiny_bundles.entry(name, method="nope"), threads=1)


def test_loading_prints_nothing(engine, payload_files, capfd):
    engines.find(engine).load(payload_files[engine], tiny_bundles.entry(engine), threads=1).close()
    assert capfd.readouterr() == ("", "")


def test_uint8_onnx(tmp_path):
    path = tmp_path / "tiny.onnx"
    tiny.write_onnx(path, shift=128)
    session = onnx.load(path, tiny_bundles.entry("onnx", shift=128), threads=1)
    x, _ = tensor("onnx")
    (logits,) = session.run((x.astype(np.int16) + 128).astype(np.uint8))
    np.testing.assert_array_equal(logits.astype(np.int16) - 128, tiny.reference(x))


@pytest.mark.parametrize(
    ("name", "module"), [("onnx", "onnxruntime"), ("litert", "ai_edge_litert.interpreter"), ("executorch", "torch")]
)
def test_engine_that_is_not_installed(name, module, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, "tflite_runtime", None)
    engine = engines.find(name)
    with pytest.raises(SetupError, match=f"engine '{name}' cannot be imported") as caught:
        engine.load(tmp_path / "x", tiny_bundles.entry(name), threads=1)
    assert (caught.value.code, caught.value.fix) == ("engine-missing", engine.INSTALL)


def test_operators_of_a_tflite(tflite_file):
    found = [(count.type, count.dtype, count.count, count.delegate) for count in litert.operators(tflite_file)]
    assert found == [("CONV_2D", "int8", 1, "XNNPACK"), ("RESHAPE", "int8", 1, "XNNPACK")]


def test_captures_of_several_threads_leave_stderr_whole(capfd):
    def work():
        for _ in range(50):
            with captured():
                os.write(2, b"noise\n")

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    with captured() as kept:
        os.write(2, b"first\n\n last \n")
    os.write(2, b"through")
    assert kept.lines == ("first", "last")
    assert kept.last() == "last"
    assert capfd.readouterr().err == "through"


def test_tflite_with_several_signatures(tmp_path):
    path = tmp_path / "tiny.tflite"
    tiny.write_tflite(path, signatures=("low", "full"))
    x, given = tensor("litert")
    for name in ("low", "full"):
        session = litert.load(path, tiny_bundles.entry("litert", method=name), threads=1)
        np.testing.assert_array_equal(session.run(given)[0], tiny.reference(x))


def test_executorch_keeps_its_thread_pool_under_open_sessions(pte_file):
    module, entry = engines.find("executorch"), tiny_bundles.entry("executorch")
    first = module.load(pte_file, entry, threads=1)
    with pytest.raises(SetupError, match="one thread pool") as caught:
        module.load(pte_file, entry, threads=2)
    assert caught.value.code == "engine-threads"
    first.close()
    module.load(pte_file, entry, threads=2).close()
    module.load(pte_file, entry, threads=1).close()


def test_plan_of_a_pte(pte_file):
    (plan,) = read_plans(pte_file.read_bytes())
    assert (plan.name, plan.delegate_calls, plan.kernel_calls) == ("forward", ("XnnpackBackend",), ("aten::view_copy",))


@pytest.mark.parametrize("data", [b"", b"    no program", b"\x00\x00\x00\x00ET12", b"\xff\xff\xff\xffET12" + b"\x00" * 50])
def test_plan_of_something_else(data):
    with pytest.raises(ValueError, match="program"):
        read_plans(data)


def bare(engine, path, given):
    """The shortest way to run the payload without edgekit."""
    if engine == "onnx":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return lambda: session.run(["logits"], {"image": given})
    if engine == "litert":
        from ai_edge_litert.interpreter import Interpreter

        interpreter = Interpreter(model_path=str(path), num_threads=1)
        interpreter.allocate_tensors()
        return lambda: (interpreter.set_tensor(0, given), interpreter.invoke(), interpreter.get_tensor(5))
    import torch
    from executorch.extension.pybindings import portable_lib

    method = portable_lib._load_program(str(path)).load_method("forward")
    tensor_in = torch.from_numpy(given)
    return lambda: method([tensor_in])


def test_wrapper_costs_less_than_50_us(engine, session, payload_files):
    _, given = tensor(engine)
    runs = (bare(engine, payload_files[engine], given), lambda: session.run(given))
    times = ([], [])
    for _ in range(300):
        for run, kept in zip(runs, times, strict=True):
            start = time.perf_counter()
            run()
            kept.append(time.perf_counter() - start)
    overhead_us = (np.median(times[1]) - np.median(times[0])) * 1e6
    print(f"{engine}: {overhead_us:.1f} us over the bare engine")
    assert overhead_us < 50

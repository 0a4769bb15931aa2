import json
import sys

import pytest

from edgekit.bench import bench, lanes, local
from edgekit.bench.memory import peak_rss_mb
from edgekit.bench.reports import reports, write_reports
from edgekit.spec.errors import InputError, SetupError
from edgekit.spec.manifest import to_json
from edgekit.spec.report import read_report
from tests.bench.small import SIDE, FakeEngine, bundle, payload

ENGINES = ("executorch", "onnx")


@pytest.fixture
def engines(monkeypatch):
    """Engines without a library: fp32 takes 3 ms of CPU time, INT8 1 ms."""
    fakes = {name: FakeEngine({"fp32": 3.0, "int8": 1.0}) for name in ENGINES}
    monkeypatch.setattr(lanes, "find_engine", fakes.__getitem__)
    monkeypatch.setattr(local, "peak_rss_mb", lambda *_, **__: 12.5)
    return fakes


@pytest.fixture
def int8(tmp_path):
    return bundle(tmp_path / "int8", [payload(name, "int8") for name in ENGINES])


@pytest.fixture
def fp32(tmp_path):
    return bundle(tmp_path / "fp32", [payload(name, "fp32") for name in ENGINES])


def test_times_of_every_payload(engines, int8):
    found = bench(int8, runs=20)
    assert [r.payload for r in found.results] == ["executorch-int8", "onnx-int8"]
    assert all(r.n == 20 and r.wall_ms_p50 <= r.wall_ms_p99 and r.ratio is None for r in found.results)
    assert all(0.9 < r.cpu_ms < 3 for r in found.results)
    assert found.ratio is None
    assert found.conditions["onnx"] == "1.0"
    assert all(s.closed for e in engines.values() for s in e.sessions)


def test_ratio_is_above_one_where_this_bundle_is_faster(engines, int8, fp32):
    found = bench(int8, against=fp32, runs=20)
    ours, theirs = found.results[:2], found.results[2:]
    assert [r.precision for r in theirs] == ["fp32", "fp32"]
    for result in ours:
        low, high = result.ratio.interval
        assert 1.5 < low <= result.ratio.cpu <= high < 4
    assert found.ratio == min((r.ratio for r in ours), key=lambda r: r.cpu)
    assert bench(fp32, against=int8, runs=20).ratio.cpu < 0.7


def test_a_bundle_against_itself_holds_int8_against_fp32(engines, tmp_path):
    both = bundle(tmp_path / "both", [payload("onnx", "int8"), payload("onnx", "fp32")])
    found = bench(both, against=both, runs=5)
    assert [r.payload for r in found.results] == ["onnx-int8", "onnx-fp32"]
    assert [(r.ratio.payload, r.ratio.against) for r in found.results if r.ratio] == [("onnx-int8", "onnx-fp32")]
    assert found.ratio.cpu > 1.5


def test_two_payloads_may_be_held_against_one(engines, fp32, tmp_path):
    both = bundle(tmp_path / "both", [payload("onnx", "int8"), payload("onnx", "fp32")], network=b"other")
    found = bench(both, against=fp32, runs=3)
    assert [r.payload for r in found.results] == ["onnx-int8", "onnx-fp32", "onnx-fp32"]
    assert [r.ratio.against for r in found.results[:2]] == ["onnx-fp32", "onnx-fp32"]


def test_the_same_precision_is_preferred(engines, int8, tmp_path):
    other = bundle(tmp_path / "o", [payload("onnx", "fp32"), payload("onnx", "int8")], network=b"other")
    assert bench(int8, against=other, runs=3).ratio.against == "onnx-int8"


def test_bundles_without_a_common_engine(engines, int8, tmp_path):
    one, other = (bundle(tmp_path / name, [payload(name, "fp32")]) for name in ENGINES)
    with pytest.raises(InputError, match="same engine"):
        bench(one, against=other)


def test_only_the_engines_asked_for(engines, int8):
    assert [r.engine for r in bench(int8, engines=("onnx",), runs=2).results] == ["onnx"]
    with pytest.raises(SetupError, match="no payload"):
        bench(int8, engines=("litert",), runs=2)


def test_an_engine_that_is_not_installed_is_named(engines, int8):
    engines["onnx"].installed = False
    assert [m.engine for m in bench(int8, runs=2).missing] == ["onnx"]
    engines["executorch"].installed = False
    with pytest.raises(SetupError) as error:
        bench(int8, runs=2)
    assert error.value.fix == "pip install fake"


@pytest.mark.parametrize("options", [{"runs": 0}, {"threads": 0}])
def test_numbers_below_one(engines, int8, options):
    with pytest.raises(InputError):
        bench(int8, **options)


def test_json_has_the_documented_keys(engines, int8, fp32):
    found = json.loads(json.dumps(to_json(bench(int8, against=fp32, runs=3))))
    keys = {"engine", "precision", "threads", "n", "cpu_ms", "wall_ms_p50", "wall_ms_p99", "peak_rss_mb"}
    assert keys <= set(found["results"][0])
    assert {"cpu", "interval"} <= set(found["ratio"])


def test_reports_are_sidecars_of_the_bundle(engines, int8, fp32, tmp_path):
    found = bench(int8, against=fp32, runs=3)
    paths = write_reports(found, tmp_path, target="host")
    assert [read_report(p).engine for p in paths] == [r.payload for r in found.results]
    first = reports(found, target="host")[0]
    assert first.bundle_sha256 == found.results[0].bundle_sha256
    assert {m.name for m in first.measurements} >= {"cpu_p50", "cpu_ratio_to_executorch-fp32"}


@pytest.fixture
def onnx_bundle(tmp_path):
    """The tiny network as a real ONNX file."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from onnx import TensorProto, helper, numpy_helper

    from tests.bench.small import WEIGHTS

    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["image", "w"], ["y"]),
            helper.make_node("GlobalAveragePool", ["y"], ["p"]),
            helper.make_node("Flatten", ["p"], ["logits"]),
        ],
        "tiny",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 3, SIDE, SIDE))],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, (1, len(WEIGHTS)))],
        [numpy_helper.from_array((WEIGHTS * 20)[:, :, None, None], "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return bundle(tmp_path / "real", [payload("onnx", "fp32")], network=model.SerializeToString())


def test_a_real_engine(onnx_bundle):
    (result,) = bench(onnx_bundle, runs=10).results
    assert result.delegate
    assert 0 < result.cpu_ms < 50
    assert 20 < result.peak_rss_mb < 1000


def test_memory_is_of_the_child_not_of_this_process(onnx_bundle):
    ballast = bytearray(600_000_000)
    ballast[::4096] = b"x" * len(ballast[::4096])
    assert peak_rss_mb(onnx_bundle, "onnx-fp32", threads=1) < 300
    assert sys.getsizeof(ballast) > 5e8

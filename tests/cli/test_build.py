"""`edgekit build` without torch: what it asks the builder for, and how it shows what it gets."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from edgekit.build.pipeline import Event, StageRun
from edgekit.build.request import BuildResult, PayloadRow, Plan, PlannedChain, PlannedStage


@pytest.fixture
def asked(fake_api):
    """The requests that the builder received; it answers each with one payload that was judged and one that was not."""
    requests = []

    def build(request, *, observe):
        requests.append(request)
        for kind, key in (("started", "a"), ("progress", "a"), ("done", "a"), ("cached", "b"), ("cached", "b")):
            observe(Event(kind, "quantize" if key == "a" else "lower", 0, 2, 0.5, "photo 3", 1.25, key))
        print("a library talks on stdout")
        rows = (
            PayloadRow("executorch", "int8", "payloads/x.pte", 4_900_000, 0.948, -0.4, 6.65, "XNNPACK", "1 XNNPACK call"),
            PayloadRow("onnx", "int8", "payloads/x.onnx", 5_100, None, None, None, "CPUExecutionProvider", "61 int8 operators"),
        )
        runs = (StageRun("quantize", False, 1.25, "a"), StageRun("lower", True, 0.0, "b"))
        return BuildResult(request.out, "d" * 64, request.model.name, request.target.name, 12.345, runs, rows, ("a note",))

    def plan(request):
        requests.append(request)
        stage = PlannedStage("quantize", "checkpoint", "quantized", {"photos": "128"})
        return Plan(request.model.name, request.target.name, request.out, (PlannedChain("onnx-int8", (stage,)),), ("a remark",))

    fake_api.build, fake_api.plan = build, plan
    return requests


def test_defaults(edgekit_, asked):
    assert edgekit_("build", "--target", "snapdragon865").code == 0
    (request,) = asked
    assert request.model.name == "efficientnet_lite0"
    assert request.model.kind == "family"
    assert request.target.name == "snapdragon865"
    assert request.out == Path("bundles/efficientnet_lite0-snapdragon865")
    assert request.precisions == ("int8",)
    assert request.engines == ("executorch", "litert", "onnx")
    assert (request.data_dir, request.weights, request.resolution_px, request.max_latency_ms) == (None, None, None, None)
    assert (request.zip, request.classes, request.seed, request.calibration_limit, request.store) == (False, None, 0, 128, None)


def test_all_options(edgekit_, asked):
    Path("photos").mkdir()
    Path("photos/a.jpg").write_bytes(b"x")
    Path("w.safetensors").write_bytes(b"x")
    Path("mine.py").write_text("def net():\n    pass\n")
    done = edgekit_(
        *("build", "--model", "mine.py:net", "--target", "pixel8", "--data", "photos", "--weights", "w.safetensors"),
        *("--precision", "int8,fp16", "--precision", "fp32", "--precision", "int8", "--engines", "onnx,litert"),
        *("--resolution", "192", "--max-latency-ms", "20", "-o", "out/mine", "--zip", "--classes", "10", "--seed", "7"),
        *("--store", "store", "--limit", "32", "--json"),
    )
    assert done.code == 0
    (request,) = asked
    assert (request.model.kind, request.model.factory, request.model.path) == ("file", "net", Path("mine.py"))
    assert request.target.name == "tensor_g3"
    assert (request.data_dir, request.weights) == (Path("photos"), Path("w.safetensors"))
    assert request.precisions == ("int8", "fp16", "fp32")
    assert request.engines == ("onnx", "litert")
    assert (request.resolution_px, request.max_latency_ms, request.classes, request.seed) == (192, 20.0, 10, 7)
    assert (request.out, request.zip) == (Path("out/mine.ekb"), True)
    assert (request.calibration_limit, request.store) == (32, Path("store"))


def test_an_ekb_ending_means_one_file(edgekit_, asked):
    edgekit_("build", "--target", "host", "--out", "x.ekb")
    assert (asked[0].out, asked[0].zip) == (Path("x.ekb"), True)


def test_a_bundle_may_be_replaced(edgekit_, asked):
    Path("old").mkdir()
    Path("old/manifest.json").write_text("{}")
    assert edgekit_("build", "--target", "host", "--out", "old").code == 0
    Path("void").mkdir()
    assert edgekit_("build", "--target", "host", "--out", "void").code == 0


def test_json_is_one_document_whatever_libraries_print(edgekit_, asked):
    done = edgekit_("build", "--target", "snapdragon865", "--json")
    document = done.document
    assert {"bundle", "digest", "model", "target", "seconds", "stages", "payloads", "notes"} <= set(document)
    assert document["stages"][1] == {"name": "lower", "cached": True, "seconds": 0.0, "key": "b"}
    assert document["payloads"][0]["agreement_top1"] == 0.948
    assert set(document["payloads"][0]) >= {"engine", "precision", "file", "size_bytes", "agreement_top1"}
    assert document["payloads"][1]["latency_ms_here"] is None
    assert "quantize" not in done.err


def test_the_table_and_the_progress(edgekit_, asked):
    done = edgekit_("build", "--target", "snapdragon865")
    assert "4.90 MB" in done.out
    assert "94.8 %" in done.out
    assert "6.65 ms" in done.out
    assert "XNNPACK" in done.out
    assert "note: a note" in done.out
    assert "1 of 2 stages already there" in done.out
    assert "a library talks" not in done.out
    lines = [line for line in done.err.splitlines() if line.startswith(("quantize:", "lower:"))]
    assert lines == ["quantize: 1.2 s", "lower: already there"]


def test_dry_run_shows_the_plan_and_writes_nothing(edgekit_, asked):
    done = edgekit_("build", "--target", "host", "--dry-run")
    assert done.code == 0
    assert "quantize" in done.out
    assert "checkpoint -> quantized" in done.out
    assert "note: a remark" in done.out
    document = edgekit_("build", "--target", "host", "--dry-run", "--json").document
    assert document["dry_run"] is True
    assert document["chains"][0]["stages"][0]["name"] == "quantize"
    assert os.listdir() == []


PROGRAM = textwrap.dedent("""
    import sys, time, types
    from dataclasses import dataclass
    from pathlib import Path
    from typing import ClassVar
    import edgekit.build
    from edgekit import cli
    from edgekit.build import pipeline
    from edgekit.build.artifact import Artifact
    from edgekit.build.store import Store

    @dataclass(frozen=True)
    class Slow:
        name: ClassVar[str] = "slow"
        version: ClassVar[int] = 1
        accepts: ClassVar[str] = "source"
        returns: ClassVar[str] = "payload"
        def run(self, source, out, progress):
            (out / "half").write_text("half")
            Path("ready").touch()
            time.sleep(60)

    api = types.ModuleType("edgekit.build.api")
    api.build = lambda request, *, observe: pipeline.run(
        (Slow(),), Artifact("source", "0", Path(".")), store=Store(request.store), observe=observe
    )
    sys.modules["edgekit.build.api"] = edgekit.build.api = api
    sys.exit(cli.invoke(sys.argv[1:]))
""")


@pytest.mark.parametrize("as_json", [False, True])
def test_ctrl_c_is_one_line_and_leaves_nothing(tmp_path, as_json):
    arguments = ["build", "--target", "host", "--store", str(tmp_path / "store"), *(["--json"] if as_json else [])]
    # A shell starts background jobs with the signal ignored, and children inherit that.
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 30
    while not (tmp_path / "ready").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
    if as_json:
        assert json.loads(out)["error"]["code"] == "interrupted"
    else:
        assert out == ""
        assert err.strip().splitlines()[-1].startswith("interrupted")
    assert os.listdir(tmp_path / "store" / "work") == []
    assert sorted(os.listdir(tmp_path)) == ["ready", "store"]


@pytest.mark.parametrize("options", [[], ["--debug"]])
def test_what_c_libraries_print_is_kept_off_stdout_and_shown_for_debugging(tmp_path, options):
    program = PROGRAM.replace("time.sleep(60)", 'import os; os.write(1, b"native noise\\n"); raise ValueError("x")')
    done = subprocess.run(
        [sys.executable, "-c", program, "build", "--target", "host", "--store", "store", "--json", *options],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["code"] == "internal"
    assert ("native noise" in done.stderr) == bool(options)

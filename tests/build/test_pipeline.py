import dataclasses
import errno
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from chains import Load, Quantize, Slow, source

from edgekit.build import pipeline
from edgekit.build.artifact import Artifact, Pinned
from edgekit.build.store import Store
from edgekit.spec.errors import EdgekitError, InputError, SetupError

CHAIN = (Load(), Quantize())


def run(tmp_path, stages=CHAIN, observe=lambda event: None):
    return pipeline.run(stages, source(tmp_path / "in"), store=Store(tmp_path / "store"), observe=observe)


def test_a_chain_runs_once_and_is_a_hit_afterwards(tmp_path):
    events = []
    first, runs = run(tmp_path, observe=events.append)
    assert [(r.name, r.cached) for r in runs] == [("load", False), ("quantize", False)]
    assert [(e.kind, e.stage) for e in events] == [
        ("started", "load"),
        ("progress", "load"),
        ("done", "load"),
        ("started", "quantize"),
        ("done", "quantize"),
    ]
    assert events[1].fraction == 0.5
    assert events[1].note == "reading"
    second, runs = run(tmp_path)
    assert [r.cached for r in runs] == [True, True]
    assert first == second
    assert first.kind == "quantized"
    assert (first.path / "sub" / "q.txt").read_text() == "8 weights"


def test_chains_that_begin_alike_share_that_work(tmp_path):
    run(tmp_path)
    _, runs = run(tmp_path, (Load(), Quantize(bits=4)))
    assert [r.cached for r in runs] == [True, False]


def test_an_input_of_equal_content_elsewhere_is_a_hit(tmp_path):
    store = Store(tmp_path / "store")
    pipeline.run(CHAIN, source(tmp_path / "one"), store=store)
    _, runs = pipeline.run(CHAIN, source(tmp_path / "two" / "deeper"), store=store)
    assert [r.cached for r in runs] == [True, True]


def test_a_stage_that_gives_the_same_bytes_spares_the_stages_after_it(tmp_path):
    """Early cut-off: the key of the second stage holds the digest of its input, not how that was made."""
    run(tmp_path)

    class NewerLoad(Load):
        version = 2

    _, runs = run(tmp_path, (NewerLoad(), Quantize()))
    assert [r.cached for r in runs] == [False, True]


def test_the_key_covers_version_fields_input_and_toolchain():
    class Newer(Quantize):
        version = 2

    keys = {
        pipeline.key(Quantize(), "d", {"numpy": "1"}),
        pipeline.key(Quantize(bits=4), "d", {"numpy": "1"}),
        pipeline.key(Quantize(), "e", {"numpy": "1"}),
        pipeline.key(Quantize(), "d", {"numpy": "2"}),
        pipeline.key(Newer(), "d", {"numpy": "1"}),
        pipeline.key(Quantize(data=Pinned(Path("a"), "1")), "d", {"numpy": "1"}),
        pipeline.key(Quantize(data=Pinned(Path("a"), "2")), "d", {"numpy": "1"}),
    }
    assert len(keys) == 7
    assert all(len(key) == 64 for key in keys)


def test_paths_are_not_in_the_key():
    assert pipeline.key(Quantize(data=Pinned(Path("a"), "1")), "d", {}) == pipeline.key(
        Quantize(data=Pinned(Path("b"), "1")), "d", {}
    )
    by_artifact = [pipeline.key(Quantize(data=Artifact("source", "1", Path(p))), "d", {}) for p in ("a", "b")]
    assert by_artifact[0] == by_artifact[1]


@pytest.mark.parametrize("value", [Path("x"), object(), [1, 2], b"bytes"])
def test_a_field_without_a_stable_value_is_refused(value):
    with pytest.raises(EdgekitError) as caught:
        pipeline.key(Quantize(bits=value), "d", {})
    assert caught.value.where == "quantize.bits"


def test_nested_dataclasses_mappings_and_tuples_are_keyed_by_value():
    @dataclass(frozen=True)
    class Goal:
        drop_pp: float

    keys = [pipeline.key(Quantize(bits=bits), "d", {}) for bits in ((Goal(1.0),), (Goal(2.0),), {"a": 1}, {"a": 2}, None, "8", 8)]
    assert len(set(keys)) == 7
    assert pipeline.key(Quantize(bits={"a": 1, "b": 2}), "d", {}) == pipeline.key(Quantize(bits={"b": 2, "a": 1}), "d", {})


def test_the_toolchain_is_what_is_installed():
    import numpy

    assert pipeline.toolchain(Quantize()) == {"numpy": numpy.__version__}
    assert pipeline.toolchain(Load()) == {}

    class Odd(Quantize):
        tools = ("no-such-distribution",)

    assert pipeline.toolchain(Odd()) == {"no-such-distribution": "absent"}


def test_a_chain_that_does_not_fit_is_refused_before_any_work(tmp_path):
    with pytest.raises(EdgekitError, match="'load' accepts 'source', but stage 'quantize' gives 'quantized'"):
        run(tmp_path, (Load(), Quantize(), Load()))
    with pytest.raises(EdgekitError, match="'quantize' accepts 'checkpoint', but the input gives 'source'"):
        run(tmp_path, (Quantize(),))
    assert not (tmp_path / "store").exists()

    class Wrong(Load):
        returns = "soup"

    with pytest.raises(EdgekitError, match="'soup'"):
        pipeline.check((Wrong(),), "source")


@dataclass(frozen=True, slots=True)
class Failing:
    name: ClassVar[str] = "failing"
    version: ClassVar[int] = 1
    accepts: ClassVar[str] = "checkpoint"
    returns: ClassVar[str] = "quantized"
    error: str

    def run(self, source, out, progress):
        (out / "half").write_text("half")
        if self.error == "nothing":
            (out / "half").unlink()
            return
        raise {
            "interrupt": KeyboardInterrupt(),
            "full": OSError(errno.ENOSPC, "No space left on device"),
            "input": InputError("bad weights"),
            "fault": RuntimeError("broken library"),
        }[self.error]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("interrupt", KeyboardInterrupt),
        ("full", SetupError),
        ("input", InputError),
        ("fault", RuntimeError),
        ("nothing", EdgekitError),
    ],
)
def test_a_stage_that_fails_leaves_nothing_and_keeps_the_stages_before(tmp_path, error, expected):
    events = []
    with pytest.raises(expected) as caught:
        run(tmp_path, (Load(), Failing(error)), observe=events.append)
    assert events[-1].kind == "failed"
    assert os.listdir(tmp_path / "store" / "work") == []
    assert len(os.listdir(tmp_path / "store" / "entries")) == 1
    if error == "fault":
        assert caught.value.__notes__ == ["in stage 'failing'"]
    if error == "full":
        assert caught.value.code == "store-full"
        assert caught.value.where == str(tmp_path / "store")


def test_a_disk_found_full_after_a_strange_error_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(pipeline.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 0}))
    with pytest.raises(SetupError, match="no space left"):
        run(tmp_path, (Load(), Failing("fault")))


def test_a_damaged_entry_is_built_again(tmp_path):
    first, _ = run(tmp_path)
    (first.path / "sub" / "q.txt").write_text("tampered")
    second, runs = run(tmp_path)
    assert [r.cached for r in runs] == [True, False]
    assert second == first
    assert (second.path / "sub" / "q.txt").read_text() == "8 weights"


def spawn(tmp_path):
    environment = {**os.environ, "CHAIN_SIGNALS": str(tmp_path / "signals"), "PYTHONUNBUFFERED": "1"}
    (tmp_path / "signals").mkdir(exist_ok=True)
    command = [sys.executable, str(Path(__file__).with_name("chains.py")), str(tmp_path / "store"), str(tmp_path / "in")]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        # Ctrl-C is ignored by what a shell started in the background, and by all that it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def wait_for(condition, process=None, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def stop_in_the_middle(tmp_path, how):
    process = spawn(tmp_path)
    wait_for(lambda: (tmp_path / "signals" / f"half-{process.pid}").exists(), process)
    process.send_signal(how)
    process.communicate(timeout=30)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_build_stopped_in_the_middle_of_a_stage_resumes(tmp_path, how):
    stop_in_the_middle(tmp_path, how)
    work, entries = tmp_path / "store" / "work", tmp_path / "store" / "entries"
    assert len(os.listdir(entries)) == 2
    if how == signal.SIGKILL:
        assert len(os.listdir(work)) == 2  # the half-made folder and its lock, both dead
    if how == signal.SIGINT:
        assert os.listdir(work) == []
    (tmp_path / "signals" / "go").touch()
    process = spawn(tmp_path)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.splitlines()[-1].endswith("load:True,quantize:True,slow:False")
    assert os.listdir(work) == []
    assert len(os.listdir(entries)) == 3
    assert all(sorted(os.listdir(entry)) == ["content", "meta.json"] for entry in entries.iterdir())


def test_two_processes_on_one_store_do_the_work_once(tmp_path):
    first = spawn(tmp_path)
    wait_for(lambda: list((tmp_path / "signals").glob("half-*")), first)
    second = spawn(tmp_path)
    lines = []
    while not lines or not lines[-1].startswith("waiting slow"):
        lines.append(second.stdout.readline())
        assert lines[-1], second.communicate()
    (tmp_path / "signals" / "go").touch()
    outs = [process.communicate(timeout=60)[0] for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0)
    results = [out.splitlines()[-1].split() for out in outs]
    assert results[0][1] == results[1][1]
    assert results[1][2] == "load:True,quantize:True,slow:True"
    assert len(list((tmp_path / "signals").glob("half-*"))) == 1
    assert os.listdir(tmp_path / "store" / "work") == []


def test_a_waiting_process_takes_over_when_the_other_is_killed(tmp_path):
    first = spawn(tmp_path)
    wait_for(lambda: list((tmp_path / "signals").glob("half-*")), first)
    second = spawn(tmp_path)
    line = ""
    while not line.startswith("waiting slow"):
        line = second.stdout.readline()
        assert line, second.communicate()
    (tmp_path / "signals" / "go").touch()
    first.kill()
    first.communicate()
    out, err = second.communicate(timeout=60)
    assert second.returncode == 0, err
    assert out.splitlines()[-1].startswith("RESULT")
    assert os.listdir(tmp_path / "store" / "work") == []


def test_importing_the_pipeline_does_not_import_torch():
    code = "import sys, edgekit.build.pipeline; print([m for m in ('torch', 'numpy', 'onnx') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_stages_are_values():
    assert Slow() == Slow()
    assert dataclasses.replace(Quantize(), bits=4) == Quantize(bits=4)

"""Bad input: one clear error, exit code 2, nothing written, nothing slow imported, no traceback."""

import errno
import os
import subprocess
import sys

import pytest

from edgekit.cli.failure import exit_code
from edgekit.cli.screen import Screen
from edgekit.spec.errors import GoalError, SetupError

BUILD = ("build", "--target", "snapdragon865")

BAD = {
    "unknown command": (("bulid",), "unknown-command", "build"),
    "unknown option": (("build", "--modle", "x"), "usage", "edgekit build --help"),
    "no target": (("build",), "usage", "edgekit build --help"),
    "unknown target": (("build", "--target", "snapdragon856"), "unknown-target", "snapdragon865"),
    "target file missing": (("build", "--target", "none.yaml"), "target", "check the path"),
    "unknown model": ((*BUILD, "--model", "efficientnet_lite9"), "unknown-model", "efficientnet_lite0"),
    "model file missing": ((*BUILD, "--model", "none.py:make"), "model", "check the path"),
    "model file no Python": ((*BUILD, "--model", "broken.py:make"), "model", "mend the file"),
    "model function missing": ((*BUILD, "--model", "mine.py:mak"), "unknown-function", "make"),
    "timm name": ((*BUILD, "--model", "timm:a b"), "unknown-model", "timm:NAME"),
    "unknown precision": ((*BUILD, "--precision", "int8,int4"), "unknown-precision", "int8"),
    "unknown engine": ((*BUILD, "--engines", "onnxx"), "unknown-engine", "onnx"),
    "data missing": ((*BUILD, "--data", "none"), "data-missing", "folder"),
    "data empty": ((*BUILD, "--data", "empty"), "data-empty", "images"),
    "data a file": ((*BUILD, "--data", "mine.py"), "data-kind", ".npz"),
    "weights missing": ((*BUILD, "--weights", "none.pth"), "weights-missing", "path"),
    "weights of another kind": ((*BUILD, "--weights", "mine.py"), "weights-kind", "state dict"),
    "weights empty": ((*BUILD, "--weights", "empty.pth"), "weights-corrupt", "state dict"),
    "latency of zero": ((*BUILD, "--max-latency-ms", "0"), "usage", "--help"),
    "resolution of zero": ((*BUILD, "--resolution", "0"), "usage", "--help"),
    "limit no number": ((*BUILD, "--limit", "many"), "usage", "--help"),
    "out in the way": ((*BUILD, "--out", "mine.py"), "output-exists", "another"),
    "out a full folder": ((*BUILD, "--out", "full"), "output-exists", "another"),
    "out below a file": ((*BUILD, "--out", "mine.py/bundle"), "output-unwritable", "written"),
    "out cannot be made": ((*BUILD, "--out", "/proc/edgekit/bundle"), "output-unwritable", "written"),
    "out zip in the way": ((*BUILD, "--zip", "--out", "other.ekb"), "output-exists", "another"),
    "bundle missing": (("inspect", "none"), "usage", "--help"),
    "bundle no bundle": (("inspect", "full"), None, None),
    "bundle another file": (("inspect", "mine.py"), "bundle-zip", "ekb"),
    "run engine": (("run", "full", "x.jpg", "--engine", "onxx"), "unknown-engine", "onnx"),
    "run image missing": (("run", "full", "x.jpg"), "image-missing", "photo"),
    "verify data missing": (("verify", "full", "--data", "none"), "data-missing", "folder"),
    "bench runs": (("bench", "full", "--runs", "0"), "usage", "--help"),
    "targets name": (("targets", "pixel9"), "unknown-target", "pixel8"),
    "models name": (("models", "resnet19"), "unknown-model", "resnet18"),
}


@pytest.fixture
def scene(edgekit_):
    """Run in a folder that holds all kinds of wrong files; gives the function that runs and one that lists the folder."""
    with open("broken.py", "w") as file:
        file.write("def make(:\n")
    with open("mine.py", "w") as file:
        file.write("def make():\n    raise SystemExit\n")
    os.mkdir("empty")
    os.mkdir("full")
    for name in ("full/letter.txt", "other.ekb"):
        with open(name, "w") as file:
            file.write("mine")
    with open("empty.pth", "w"):
        pass
    return edgekit_, lambda: sorted(os.path.join(folder, name) for folder, _, names in os.walk(".") for name in names)


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_error(scene, case):
    run, listing = scene
    arguments, code, fix = BAD[case]
    before = listing()
    done = run(*arguments)
    assert done.code == 2
    assert done.out == ""
    lines = done.err.splitlines()
    assert lines[0].startswith("error: ")
    assert [line.partition(":")[0].strip() for line in lines] == ["error", "where", "fix"]
    assert "Traceback" not in done.err
    as_json = run(*arguments, "--json")
    assert as_json.code == 2
    assert as_json.err == ""
    assert list(as_json.document) == ["error"]
    error = as_json.document["error"]
    assert list(error) == ["code", "what", "where", "fix"]
    assert all(error.values())
    if code:
        assert error["code"] == code
        assert fix in error["fix"]
    assert listing() == before


def test_bad_input_of_a_build_is_found_before_anything_slow_is_imported(tmp_path):
    code = (
        "import sys; from edgekit import cli;"
        "code = cli.invoke(['build', '--target', 'host', '--weights', 'none.pth']);"
        "print(code, [m for m in ('torch', 'onnx', 'executorch', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "2 []\n"


@pytest.mark.parametrize(
    ("error", "code", "slug"),
    [
        (GoalError("too slow"), 3, "goal"),
        (SetupError("no engine"), 4, "setup"),
        (RuntimeError("broken"), 1, "internal"),
        (ModuleNotFoundError("No module named 'onnx'", name="onnx"), 4, "package-missing"),
        (OSError(errno.ENOSPC, "No space left on device", "/out"), 2, "output-full"),
        (PermissionError(errno.EACCES, "Permission denied", "/out"), 2, "output-unwritable"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError(), 1, "internal"),
    ],
)
def test_each_kind_of_error_has_its_exit_code(capsys, error, code, slug):
    import json

    assert exit_code(error, Screen(as_json=True, debug=False)) == code
    assert json.loads(capsys.readouterr().out)["error"]["code"] == slug
    assert exit_code(error, Screen(as_json=False, debug=False)) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err


def test_an_unexpected_error_is_one_line_unless_debug(edgekit_, fake_api):
    def build(request, *, observe):
        error = RuntimeError("first line\nsecond line")
        error.add_note("in stage 'lower'")
        raise error

    fake_api.build = build
    done = edgekit_("build", "--target", "host")
    assert done.code == 1
    assert done.err.splitlines()[0].endswith("RuntimeError: first line")
    assert "in stage 'lower', build.py:" in done.err
    assert "--debug" in done.err
    assert "Traceback" not in done.err
    for arguments in (("build", "--target", "host", "--debug"), ("--debug", "build", "--target", "host")):
        assert "Traceback" in edgekit_(*arguments).err


def test_a_missing_build_extra_is_said_before_work(edgekit_, fake_api, monkeypatch):
    from edgekit.cli import checks

    monkeypatch.setattr(checks, "_is_installed", lambda module: module not in ("litert_torch", "torch"))
    done = edgekit_("build", "--target", "host", "--json")
    assert done.code == 4
    assert "torch, litert_torch" in done.document["error"]["what"]
    assert "pip install 'edgekit[build]'" in done.document["error"]["fix"]
    assert "litert" not in edgekit_("build", "--target", "host", "--engines", "onnx", "--json").document["error"]["what"]


@pytest.mark.parametrize("how", ["option", "variable"])
def test_a_store_that_cannot_be_written_is_said_before_work(scene, monkeypatch, how):
    run, _ = scene
    if how == "variable":
        monkeypatch.setenv("EDGEKIT_STORE", "mine.py/store")
    done = run(*BUILD, *(["--store", "mine.py/store"] if how == "option" else []), "--json")
    assert done.code == 4
    assert done.document["error"]["code"] == "store-unwritable"
    assert "--store" in done.document["error"]["fix"]

"""The README's two commands, run from a clean clone as a newcomer would."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
COMMANDS = ("bash tools/demo.sh", "bash tools/test.sh")


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """The last commit in an empty folder, without the files that only lie in the working tree."""
    place = tmp_path_factory.mktemp("newcomer") / "edgekit"
    if subprocess.run(["git", "rev-parse", "--verify", "-q", "HEAD"], cwd=ROOT, capture_output=True, check=False).returncode:
        pytest.skip("not a git checkout with a commit")
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(place)], check=True)
    yield place
    shutil.rmtree(place / ".venv", ignore_errors=True)


def newcomer(clone, command, timeout_s):
    """Run a command without this environment's own variables; EDGEKIT_STORE stays, so that networks are built once."""
    env = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTEST_ADDOPTS")}
    done = subprocess.run(command, shell=True, cwd=clone, env=env, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_the_readme_names_the_command(command):
    assert command in (ROOT / "README.md").read_text()


@pytest.mark.slow
def test_the_demo_runs_from_a_clean_clone(clone):
    out = newcomer(clone, COMMANDS[0], timeout_s=1200)
    bundle = clone / out.strip().splitlines()[-1].removeprefix("bundle: ")
    assert {p["engine"] for p in json.loads((bundle / "manifest.json").read_text())["payloads"]} == {
        "executorch",
        "litert",
        "onnx",
    }


@pytest.mark.slow
def test_the_test_command_runs_from_a_clean_clone(clone):
    """A part of the suite: all of it would start this test again."""
    out = newcomer(clone, f"{COMMANDS[1]} -q tests/spec", timeout_s=600)
    assert " passed" in out.strip().splitlines()[-1]

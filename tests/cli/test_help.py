import resource
import subprocess
import sys

import pytest

from edgekit.cli import COMMANDS

HELP_CPU_SECONDS = 0.3
HEAVY = ("torch", "numpy", "onnx", "onnxruntime", "ai_edge_litert", "executorch", "yaml", "rich", "jsonschema", "PIL")


def test_help_is_fast():
    """The fastest of five: the bar is on what the program does, not on what else the machine does."""
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "edgekit", "--help"], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    print(f"edgekit --help: {min(times):.3f} s CPU")
    assert min(times) <= HELP_CPU_SECONDS


def test_help_imports_nothing_heavy():
    code = f"import sys; from edgekit import cli; cli.invoke(['--help']); print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", [name for name, _ in COMMANDS])
def test_every_command_explains_itself(edgekit_, name):
    done = edgekit_(name, "--help")
    assert done.code == 0
    assert f"Usage: edgekit {name}" in done.out
    assert "--json" in done.out
    assert "--debug" in done.out
    assert done.err == ""


def test_no_arguments_show_the_help(edgekit_):
    done = edgekit_()
    assert done.code == 0
    assert all(name in done.out for name, _ in COMMANDS)


def test_version(edgekit_):
    from importlib.metadata import version

    assert edgekit_("--version").out == f"edgekit {version('edgekit')}\n"


def test_the_script_and_the_modules_are_the_same_program():
    for module in ("edgekit", "edgekit.cli"):
        done = subprocess.run([sys.executable, "-m", module, "--version"], check=True, capture_output=True, text=True)
        assert done.stdout.startswith("edgekit ")

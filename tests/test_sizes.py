"""Small files and functions, and no text that is true on one machine only."""

import ast
import re
import statistics
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAX_FILE, MAX_FUNCTION = 300, 80
MEDIAN_FILE, MEDIAN_FUNCTION = 150, 12

PRODUCT = ("edgekit", "models")
# Written in parts, so that this file does not hold what it looks for.
HOSTS = re.compile(
    "|".join(
        [r"\.".join(parts) for parts in (("py" + "pi", "org"), ("python" + "hosted", "org"), ("download", "pytorch", "org"))]
        + ["index" + "-url"]
    )
)
MACHINE = re.compile(r"(?<![\w.$}])/(?:work|root|home|Users)/\w")


def python_files(*folders):
    return sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))


def function_lengths(source):
    """(name, lines) of every function, decorators and docstring included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            yield node.name, node.end_lineno - first + 1


@pytest.mark.parametrize("folder", [*PRODUCT, "tools", "tests"])
def test_nothing_is_long(folder):
    for file in python_files(folder):
        text = file.read_text()
        name = file.relative_to(ROOT)
        assert len(text.splitlines()) <= MAX_FILE, f"{name}: split it, one idea per file"
        for function, lines in function_lengths(text):
            assert lines <= MAX_FUNCTION, f"{name}: {function} has {lines} lines"


def test_the_median_is_short():
    texts = [text for file in python_files(*PRODUCT) if (text := file.read_text())]
    functions = [lines for text in texts for _, lines in function_lengths(text)]
    assert statistics.median(len(text.splitlines()) for text in texts) <= MEDIAN_FILE
    assert statistics.median(functions) <= MEDIAN_FUNCTION


def test_the_longest_function_is_measured():
    assert list(function_lengths("@cache\ndef f():\n    a = 1\n\n    return a\n")) == [("f", 5)]


def text_files():
    """Files that git holds or would hold: neither ignored nor binary."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    for name in filter(None, done.stdout.decode().split("\0")):
        file = ROOT / name
        # This file names what it forbids.
        if file != Path(__file__) and file.is_file() and not file.is_symlink():
            try:
                yield name, file.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


def machine_bound(text):
    """Places of a text that hold on one machine or with one registry only."""
    return [match.group() for pattern in (HOSTS, MACHINE) for match in pattern.finditer(text)]


def test_no_file_names_a_machine_or_a_registry():
    found = {name: places for name, text in text_files() if (places := machine_bound(text))}
    assert not found


@pytest.mark.parametrize(
    ("text", "bad"),
    [("cd /home/me/x", True), ("pip --extra-index-url x", True), ("models/home/x", False), ("$REPO/home/x", False)],
)
def test_the_search_finds_such_text(text, bad):
    assert bool(machine_bound(text)) is bad

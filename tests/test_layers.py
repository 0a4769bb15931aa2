"""Imports point only downwards: read from the import statements, and proved in a process where the upper layers are forbidden."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# What each part of edgekit may import of edgekit, itself included. A part that is not here may import everything.
ALLOWED = {
    "spec": {"spec"},
    "runtime": {"runtime", "spec"},
    "build": {"build", "bench", "runtime", "spec"},
    "bench": {"bench", "runtime", "spec"},
    "server": {"server", "runtime", "spec"},
}
# Libraries by the part that may import them. Everything else is the standard library or one of the light ones.
LIGHT = {"edgekit", "numpy", "PIL"}
LIBRARIES = {
    "spec": {"edgekit", "jsonschema", "yaml", "referencing"},
    "runtime": LIGHT,
    "runtime.tokens": {*LIGHT, "tokenizers"},  # where it is installed; else a reader of our own
    "runtime.engines": {*LIGHT, "executorch", "ai_edge_litert", "tflite_runtime", "onnxruntime"},
    "bench": {*LIGHT, "scipy"},
}
TOP_LEVEL_OF_SPEC = {"edgekit"}


def imports(source, package):
    """(module, at top level) of every import statement; relative ones resolved against `package`."""
    tree = ast.parse(source)
    top = {id(node) for node in ast.walk(tree) if isinstance(node, ast.stmt)}
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            top -= {id(node) for node in ast.walk(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in top) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            yield module, id(node) in top
            yield from ((f"{module}.{alias.name}", id(node) in top) for alias in node.names)


def violations(source, path):
    """Sentences about what the file at `path` (below edgekit/) must not import."""
    parts = path.with_suffix("").parts
    layer = parts[0]
    key = ".".join(parts[:2]) if ".".join(parts[:2]) in LIBRARIES else layer
    for module, at_top in imports(source, ".".join(("edgekit", *parts[:-1]))):
        names = module.split(".")
        if names[0] == "edgekit" and layer in ALLOWED and len(names) > 1 and names[1] not in ALLOWED[layer]:
            yield f"{path}: {layer} imports {module}"
        if key in LIBRARIES and names[0] not in LIBRARIES[key] | sys.stdlib_module_names:
            yield f"{path}: {key} imports {module}"
        if layer == "spec" and at_top and names[0] not in TOP_LEVEL_OF_SPEC | sys.stdlib_module_names:
            yield f"{path}: spec imports {module} at the top of the file"


def test_imports_point_downwards():
    files = sorted((ROOT / "edgekit").rglob("*.py"))
    assert files
    found = [v for file in files for v in violations(file.read_text(), file.relative_to(ROOT / "edgekit"))]
    assert not found, "\n".join(sorted(set(found)))


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("spec/digest.py", "import numpy"),
        ("spec/target.py", "import yaml"),
        ("spec/bundle.py", "def f():\n    from edgekit.runtime import model"),
        ("runtime/model.py", "import torch"),
        ("runtime/model.py", "from edgekit import build"),
        ("runtime/model.py", "from ..build import store"),
        ("runtime/model.py", "import onnxruntime"),
        ("build/plan.py", "import edgekit.cli"),
        ("bench/local.py", "from edgekit.build.data import open_data"),
    ],
)
def test_the_checker_sees_a_violation(path, source):
    assert list(violations(source, Path(path)))


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("spec/target.py", "def f():\n    import yaml"),
        ("runtime/engines/onnx.py", "def f():\n    import onnxruntime"),
        ("build/stages/export.py", "import torch\nfrom edgekit.runtime import pixels"),
        ("cli/build.py", "from edgekit.build import pipeline\nfrom edgekit import bench"),
    ],
)
def test_the_checker_lets_the_rest_pass(path, source):
    assert not list(violations(source, Path(path)))


def test_runtime_and_bench_load_without_the_upper_layers():
    """A phone or a board has numpy and one engine: importing must not even look for torch, onnx or the builder."""
    program = """
import sys
class Forbid:
    def find_spec(self, name, path=None, target=None):
        heavy = {"torch", "torchvision", "onnx", "executorch", "onnxruntime", "ai_edge_litert", "scipy", "jax", "edgekit.build"}
        if name in heavy or name.startswith("edgekit.build."):
            raise SystemExit(f"imported {name}")
sys.meta_path.insert(0, Forbid())
import edgekit, edgekit.spec, edgekit.runtime, edgekit.bench
import edgekit.runtime.model, edgekit.bench.local, edgekit.bench.verify
print("clean")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stdout.strip() == "clean", done.stderr

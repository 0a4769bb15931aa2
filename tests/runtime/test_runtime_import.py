"""The runtime needs numpy and, when a bundle is opened, one engine."""

import subprocess
import sys

import pytest

BLOCK = """
import sys, time
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "onnx", "jsonschema", "yaml", "PIL", "scipy"} or name.startswith("edgekit.build"):
            raise ImportError("blocked: " + name)
sys.meta_path.insert(0, Blocker())
"""


def run(program, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", BLOCK + program, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("engine", ["litert", "onnx"])
def test_runs_without_torch_onnx_and_the_builder(bundle, engine):
    program = """
import numpy as np, edgekit
with edgekit.open(sys.argv[1], engine=sys.argv[2]) as model:
    result = model.run(np.zeros((30, 20, 3), np.uint8))
print(result.engine, sorted({"torch", "onnx", "PIL", "jsonschema", "yaml"} & set(sys.modules)))
"""
    assert run(program, bundle, engine) == f"{engine} []\n"


def test_executorch_without_torch_is_not_installed(tmp_path, pte_file):
    import tiny_bundles

    path = tiny_bundles.write(tmp_path / "b", {"executorch": pte_file})
    program = """
import edgekit
from edgekit.spec.errors import SetupError
for engine in ("executorch", "auto"):
    try:
        edgekit.open(sys.argv[1], engine=engine)
    except SetupError as error:
        print(error.code, error.fix)
"""
    assert run(program, path) == "engine-missing pip install executorch\n" * 2


def test_import_is_quick():
    program = """
import numpy
start = time.perf_counter()
import edgekit.runtime
print(time.perf_counter() - start)
"""
    seconds = min(float(run(program)) for _ in range(4))
    print(f"import edgekit.runtime adds {seconds:.3f} s over numpy")
    assert seconds < 0.15


def test_api_is_what_is_exported():
    import edgekit
    import edgekit.runtime

    assert sorted(edgekit.__all__) == ["build", "open"]
    assert edgekit.open is edgekit.runtime.open
    assert sorted(edgekit.runtime.__all__) == ["Label", "Latency", "Model", "Refusal", "Result", "TextModel", "open"]
    for name in edgekit.runtime.__all__:
        assert getattr(edgekit.runtime, name)
    with pytest.raises(AttributeError, match="nothing"):
        _ = edgekit.nothing


@pytest.mark.parametrize("first", ["import edgekit", "import edgekit.build", "from edgekit.build import artifact"])
def test_build_is_a_package_and_a_verb(first):
    program = f"""
import sys, types
{first}
import edgekit
api = types.ModuleType("edgekit.verbs")
api.build = lambda model, *, target: (model, target)
sys.modules["edgekit.verbs"] = api
assert edgekit.build("m", target="t") == edgekit.build("m", target="t") == ("m", "t")
from edgekit import build
import edgekit.build.artifact
assert build("m", target="u") == ("m", "u")
print(edgekit.build.artifact.__name__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "edgekit.build.artifact\n", done.stderr

"""A wheel built from the tree and installed alone, with the core dependencies only, knows every target and model."""

import json
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CORE = ("numpy", "click", "pyyaml", "jsonschema", "rich", "pillow")


def call(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("hatchling")
    pytest.importorskip("build")
    out = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Folder of programs of an environment that holds the wheel and its core dependencies."""
    uv = shutil.which("uv", path=Path(sys.executable).parent) or shutil.which("uv")
    if uv is None:
        pytest.skip("uv makes the environment in a second; it is not installed")
    home = tmp_path_factory.mktemp("venv") / "venv"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    call(uv, "pip", "install", "--quiet", "--python", python, "-c", ROOT / "constraints.txt", wheel, cwd=home)
    return home / "bin"


def names(folder, suffix):
    return {p.stem for p in (ROOT / folder).glob(f"*{suffix}") if not p.name.startswith(("_", "."))}


def test_it_holds_data_under_its_own_name(wheel):
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"edgekit"}


def test_it_lists_every_target(installed, tmp_path):
    listed = json.loads(call(installed / "edgekit", "targets", "--json", cwd=tmp_path))
    assert {t["name"] for t in listed["targets"]} == names("targets", ".yaml")


def test_it_lists_every_model(installed, tmp_path):
    alone = json.loads(call(installed / "edgekit", "models", "--json", cwd=tmp_path))
    here = json.loads(call(sys.executable, "-m", "edgekit.cli", "models", "--json", cwd=ROOT))
    assert {m["name"] for m in alone["models"]} == {m["name"] for m in here["models"]}
    assert len(alone["models"]) >= 7


def test_it_brought_nothing_heavy(installed, tmp_path):
    program = "import importlib.util as u; print([n for n in ('torch', 'onnx', 'scipy', 'onnxruntime') if u.find_spec(n)])"
    assert call(installed / "python", "-c", program, cwd=tmp_path).strip() == "[]"

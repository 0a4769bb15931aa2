"""targets, models and doctor."""

import importlib.metadata
import subprocess
import sys

import pytest

from edgekit.cli import toolchain


def test_targets(edgekit_):
    listed = edgekit_("targets", "--json").document["targets"]
    names = [target["name"] for target in listed]
    wanted = {"snapdragon865", "snapdragon888", "snapdragon8gen2", "raspberrypi4", "raspberrypi5", "tensor_g3", "host"}
    assert wanted <= set(names)
    out = edgekit_("targets").out
    assert all(name in out for name in names)
    assert "pixel8" in out


@pytest.mark.parametrize("name", ["snapdragon865", "pixel8", "host"])
def test_one_target(edgekit_, name):
    (target,) = edgekit_("targets", name, "--json").document["targets"]
    assert name in (target["name"], *target["aliases"])
    out = edgekit_("targets", name).out
    assert target["cpu"][0]["core"] in out
    assert all(engine["reason"] in " ".join(out.split()) for engine in target["engines"])
    assert "source of" in out


def test_models(edgekit_):
    listed = edgekit_("models", "--json").document["models"]
    wanted = {*(f"efficientnet_lite{i}" for i in range(3)), "mobilenet_v2", "mobilenet_v3_small", "resnet18", "resnet50"}
    assert wanted <= {model["name"] for model in listed}
    out = edgekit_("models").out
    assert all(name in out for name in wanted)


def test_one_model(edgekit_):
    (model,) = edgekit_("models", "efficientnet_lite0", "--json").document["models"]
    assert model["resolution_px"] == 224
    assert "crop" in edgekit_("models", "efficientnet_lite0").out
    done = edgekit_("models", "timm:resnet18", "--json")
    assert (done.code, done.document["error"]["code"]) == (2, "timm")


def test_listing_models_imports_no_torch():
    code = "import sys; from edgekit import cli; cli.invoke(['models', '--json']); print('torch' in sys.modules, file=sys.stderr)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr == "False\n"


def test_doctor(edgekit_):
    done = edgekit_("doctor", "--json")
    assert done.code == 0
    document = done.document
    packages = {row["name"]: row for row in document["packages"]}
    assert packages["numpy"]["installed"] == importlib.metadata.version("numpy")
    assert packages["torch"]["wanted"] is not None
    assert "build" in packages["torch"]["extras"]
    assert {engine["name"] for engine in document["engines"]} >= {"executorch", "litert", "onnx"}
    out = edgekit_("doctor").out
    assert "torchao" in out


@pytest.fixture
def poor(monkeypatch):
    """An environment without LiteRT's converter and with another torch."""
    real = importlib.metadata.version

    def version(name):
        if name == "litert-torch":
            raise importlib.metadata.PackageNotFoundError(name)
        return {"torch": "2.12.0+cpu"}.get(name) or real(name)

    monkeypatch.setattr(toolchain.importlib.metadata, "version", version)


def test_doctor_names_what_is_missing_and_the_command(edgekit_, poor):
    document = edgekit_("doctor", "--json").document
    rows = {row["name"]: row for row in document["packages"]}
    assert rows["litert-torch"]["state"] == "missing"
    assert rows["litert-torch"]["fix"] == f"pip install 'litert-torch=={rows['litert-torch']['wanted']}'"
    assert rows["torch"]["state"] == "other version"
    assert document["ok"] is False
    assert any("edgekit[build]" in fix for fix in document["fixes"])
    assert any(f"torch=={rows['torch']['wanted']}" in fix for fix in document["fixes"])
    assert edgekit_("doctor").code == 0
    assert edgekit_("doctor", "--strict").code == 4
    assert "to mend: pip install" in edgekit_("doctor").out


def test_doctor_without_the_list_of_tested_versions(edgekit_, poor, monkeypatch):
    monkeypatch.setattr(toolchain, "constraints_path", lambda: None)
    document = edgekit_("doctor", "--json").document
    assert document["constraints"] is None
    assert document["fixes"] == ["pip install 'edgekit[build]'"]
    assert edgekit_("doctor").code == 0


def test_pins_and_builds_of_the_same_version(tmp_path, monkeypatch):
    path = tmp_path / "constraints.txt"
    path.write_text("# tested\nTorch==2.13.0  # CPU\nother_name==1.0; python_version > '3'\n\n-r more.txt\n")
    assert toolchain.pins(path) == {"torch": "2.13.0", "other-name": "1.0"}
    monkeypatch.setattr(toolchain.importlib.metadata, "requires", lambda name: ["torch==2.13.0; extra == 'build'", "click>=8"])
    monkeypatch.setattr(toolchain.importlib.metadata, "version", lambda name: "2.13.0+cpu" if name == "torch" else "8.1.0")
    states = {state.name: state for state in toolchain.package_states(toolchain.pins(path))}
    assert (states["torch"].state, states["torch"].extras) == ("ok", ("build",))
    assert (states["click"].state, states["click"].wanted) == ("ok", None)

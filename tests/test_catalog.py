import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from edgekit import catalog, host
from edgekit.spec.errors import InputError, SetupError, UnknownName
from edgekit.spec.target import figures

ROOT = Path(__file__).parent.parent


def test_every_model_file_is_listed():
    files = {path.stem for path in (ROOT / "models").glob("*.py")}
    assert {catalog.find_model(name).path.stem for name in catalog.model_names()} == files


def test_a_model_by_name():
    source = catalog.find_model("efficientnet_lite0")
    assert (source.kind, source.factory, source.name) == ("family", "efficientnet_lite0", "efficientnet_lite0")
    assert source.spec.resolution_px == 224


def test_an_unknown_model_names_the_nearest():
    with pytest.raises(UnknownName) as caught:
        catalog.find_model("mobilenet_v4")
    assert "mobilenet_v2" in caught.value.fix
    assert "edgekit models" in caught.value.fix


def test_a_model_of_the_users_file(tmp_path):
    path = tmp_path / "My Net.py"
    path.write_text("from somewhere import other\nimport package.deep as renamed\nclass Net: pass\nmake = Net\ndef f(): pass\n")
    for factory in ("make", "f", "Net", "other", "renamed"):
        source = catalog.find_model(f"{path}:{factory}")
        assert (source.kind, source.factory, source.path) == ("file", factory, path)
        assert (source.name, source.spec.classes) == ("my_net", 0)
    assert catalog.find_model(str(path)).factory == "make"
    with pytest.raises(UnknownName, match="'g'"):
        catalog.find_model(f"{path}:g")
    path.write_text("from somewhere import *\n")
    assert catalog.find_model(f"{path}:g").factory == "g"


def test_a_family_file_of_the_user(tmp_path):
    path = tmp_path / "tiny.py"
    path.write_text(
        "SPECS = {'tiny': {'task': 'image-classification', 'classes': 3, 'resolution_px': 32,"
        " 'mean': (0.0, 0.0, 0.0), 'std': (1.0, 1.0, 1.0)}}\ndef make(name, *, classes): pass\n"
    )
    source = catalog.find_model(f"{path}:tiny")
    assert (source.kind, source.spec.classes, source.spec.family) == ("family", 3, path)
    assert catalog.find_model(f"{path}:make").kind == "file"


@pytest.mark.parametrize("text", ["def make(:", "\0"])
def test_a_file_that_is_no_python(tmp_path, text):
    (tmp_path / "x.py").write_text(text)
    with pytest.raises(InputError) as caught:
        catalog.find_model(f"{tmp_path / 'x.py'}:make")
    assert "x.py" in caught.value.where


def test_the_users_file_is_not_run(tmp_path):
    (tmp_path / "x.py").write_text("raise SystemExit('was run')\ndef make(): pass\n")
    assert catalog.find_model(f"{tmp_path / 'x.py'}:make").kind == "file"


def test_timm():
    source = catalog.find_model("timm:vit_tiny_patch16_224.augreg")
    assert (source.kind, source.name, source.spec) == ("timm", "vit_tiny_patch16_224.augreg", None)
    with pytest.raises(InputError):
        catalog.find_model("timm:")


@pytest.mark.parametrize("name", catalog.target_names())
def test_every_target_loads_and_has_a_reason_for_each_engine(name):
    target = catalog.find_target(name)
    assert target.name == name
    assert target.cpu
    assert {engine.engine for engine in target.engines} == {"executorch", "litert", "onnx"}
    assert all(engine.reason for engine in target.engines)
    assert catalog.find_target(str(ROOT / "targets" / f"{name}.yaml")) == target
    assert "onnx_activation_dtype" in target.sources
    assert figures(target)


def test_aliases():
    assert catalog.find_target("pixel8").name == "tensor_g3"
    names = list(catalog.target_names())
    aliases = [alias for name in names for alias in catalog.find_target(name).aliases]
    assert len({*names, *aliases}) == len(names) + len(aliases)


def test_facts_that_decide():
    """NNAPI gave wrong results on the 865; QNN begins at v68; uint8 where its kernels are the better ones."""
    notes = {name: " ".join(catalog.find_target(name).notes) for name in catalog.target_names()}
    assert "NNAPI: never" in notes["snapdragon865"]
    assert "No QNN" in notes["snapdragon865"]
    assert "v68" in notes["snapdragon888"]
    dtypes = {name: catalog.find_target(name).onnx_activation_dtype for name in catalog.target_names() if name != "host"}
    for name, dtype in dtypes.items():
        target = catalog.find_target(name)
        signed = all(cluster.isa.dotprod and not cluster.isa.i8mm for cluster in target.cpu)
        # A phone's bundle is tried and served on x86 too, where int8 activations stay partly float.
        assert (dtype == "int8") == (signed and target.kind == "board"), name


def test_an_unknown_target_names_the_nearest_also_by_alias():
    with pytest.raises(UnknownName) as caught:
        catalog.find_target("pixel9")
    assert "pixel8" in caught.value.fix


def test_engines_and_lowerings():
    assert set(catalog.engine_names()) >= {"executorch", "litert", "onnx"}
    assert catalog.find_engine("onnx").NAME == "onnx"
    assert set(catalog.lowering_names()) >= {"executorch", "litert", "onnx"}
    for find in (catalog.find_engine, catalog.find_lowering):
        with pytest.raises(UnknownName):
            find("tensorrt")


@pytest.fixture
def third_party(tmp_path, monkeypatch):
    """A distribution that brings targets and models of its own."""
    package = tmp_path / "acme_edge"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('was imported')")
    text = (ROOT / "targets" / "raspberrypi4.yaml").read_text()
    (package / "acme_board.yaml").write_text(text.replace("name: raspberrypi4", "name: acme_board").replace("[rpi4]", "[]"))
    info = tmp_path / "acme_edge-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-edge\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[edgekit.targets]\nacme = acme_edge\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    return package


def test_a_third_party_brings_targets_without_being_imported(third_party):
    assert "acme_board" in catalog.target_names()
    assert catalog.find_target("acme_board").soc == "Raspberry Pi 4B (BCM2711)"


def test_two_files_of_one_name_are_refused(third_party):
    (third_party / "host.yaml").write_text("name: host\n")
    with pytest.raises(InputError, match="two files define the target 'host'"):
        catalog.target_names()


def test_an_entry_point_to_nothing_is_named(third_party):
    (third_party.parent / "acme_edge-1.0.dist-info" / "entry_points.txt").write_text("[edgekit.models]\nacme = not_there\n")
    with pytest.raises(SetupError, match="not_there"):
        catalog.model_names()


def test_an_installed_copy_comes_before_a_folder_beside_the_package(tmp_path, monkeypatch):
    package = tmp_path / "site-packages" / "edgekit"
    (package / "_targets").mkdir(parents=True)
    (package / "_targets" / "lonely.yaml").write_text("")
    (package.parent / "models").mkdir()
    (package.parent / "models" / "somebody.py").write_text("SPECS = 1")
    monkeypatch.setattr(catalog, "__file__", str(package / "catalog.py"))
    assert catalog.target_names() == ("lonely",)
    assert catalog.model_names() == ()


def test_the_catalog_imports_nothing_heavy():
    code = (
        "import sys; from edgekit import catalog; catalog.target_names(); catalog.find_target('host');"
        "catalog.find_model('resnet18'); print([m for m in ('torch', 'numpy', 'onnx') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


X86 = (
    "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: avx2 avx512_vnni avx512_bf16\n\nprocessor\t: 1\nmodel name\t: Some CPU\n"
)
PI5 = "".join(
    f"processor\t: {i}\nFeatures\t: fp asimd asimdhp asimddp\nCPU implementer\t: 0x41\nCPU part\t: 0xd0b\n\n" for i in range(4)
)


def test_the_cores_of_a_host(monkeypatch):
    monkeypatch.setattr(host, "_max_ghz", lambda processor: None)
    same = X86.replace("Some CPU\n", "Some CPU\nflags\t: avx2\n", 1).replace("flags\t\t: avx2 avx512_vnni avx512_bf16\n", "")
    assert [cluster.count for cluster in host.clusters(same, machine="x86_64")] == [1, 1]
    first = host.clusters(X86, machine="x86_64")[0]
    assert (first.core, first.isa.arch, first.isa.dotprod, first.isa.bf16, first.isa.i8mm) == (
        "Some CPU",
        "x86-64",
        True,
        True,
        False,
    )
    (pi,) = host.clusters(PI5, machine="aarch64")
    assert (pi.core, pi.count, pi.isa.arch, pi.isa.dotprod, pi.isa.i8mm) == ("Cortex-A76", 4, "v8.2", True, False)
    (unknown,) = host.clusters("", machine="riscv64")
    assert (unknown.core, unknown.isa.dotprod) == ("riscv64", None)


def test_big_and_little_cores_are_apart_the_fastest_first(monkeypatch):
    monkeypatch.setattr(host, "_max_ghz", lambda processor: 2.4 if processor in ("2", "3") else 1.8)
    assert [(c.count, c.max_ghz) for c in host.clusters(PI5, machine="aarch64")] == [(2, 2.4), (2, 1.8)]


def test_the_host_on_arm_takes_the_better_activations(monkeypatch):
    monkeypatch.setattr(host.platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(host, "_read", lambda path: PI5 if path == "/proc/cpuinfo" else "")
    assert catalog.find_target("host").onnx_activation_dtype == "int8"
    monkeypatch.setattr(host, "_read", lambda path: PI5.replace("asimddp", "asimddp i8mm") if path == "/proc/cpuinfo" else "")
    assert catalog.find_target("host").onnx_activation_dtype == "uint8"


def test_only_the_host_is_completed():
    target = catalog.find_target("raspberrypi5")
    assert host.complete(target) is target

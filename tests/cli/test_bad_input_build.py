"""Builds of small networks of the user: wrong ones end in one clear error and leave nothing, odd ones build."""

import os
import pickle
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
np = pytest.importorskip("numpy")

MODELS = """
import sys
import torch
from torch import nn

def tiny(classes=5, first=3):
    return nn.Sequential(nn.Conv2d(first, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, classes))

class Around(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = tiny()

class Branch(Around):
    def forward(self, x):
        if x.sum() > 0:  # BRANCH
            x = x + 1
        return self.net(x)

class Item(Around):
    def forward(self, x):
        top = x.max().item()
        return self.net(x) * (2.0 if top > 3 else 1.0)  # ITEM

class Silent(Around):
    def forward(self, x):
        raise RuntimeError  # SILENT

class Two(Around):
    def forward(self, x):
        return self.net(x), x

class TwoInputs(Around):
    def forward(self, x, y):
        return self.net(x + y)

class NoLayers(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))

def branch(): return Branch()
def item(): return Item()
def silent(): return Silent()
def two(): return Two()
def two_inputs(): return TwoInputs()
def no_layers(): return NoLayers()
def gray(): return tiny(first=1)
def fails(): raise ValueError("no luck")  # FAILS
def leaves(): sys.exit(3)  # LEAVES
def number(): return 3
def headless(): return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())
def lazy(): return nn.Sequential(nn.Flatten(), nn.LazyLinear(5))
def half(): return tiny().half()

def not_a_number():
    net = tiny()
    net[5].bias.data[0] = float("nan")
    return net
"""
SMALL = ("build", "--target", "snapdragon865", "--store", "store", "--out", "out", "--resolution", "32", "--engines", "onnx")


class Evil:
    def __reduce__(self):
        return os.mkdir, ("evil-was-here",)


@pytest.fixture
def small(edgekit_):
    """Build a function of models.py in an empty folder."""
    Path("models.py").write_text(MODELS)
    return lambda name, *options: edgekit_(*SMALL, "--model", f"models.py:{name}", *options, "--json")


def refused(done, exit_code, code):
    """The error, after checking that it is the only thing that is left."""
    assert done.code == exit_code, done.out
    error = done.document["error"]
    assert error["code"] == code, error
    assert all(error.values())
    assert done.err == ""
    assert not Path("out").exists()
    assert not Path("store/work").exists() or os.listdir("store/work") == []
    return error


def line_of(mark):
    return next(i for i, line in enumerate(MODELS.splitlines(), 1) if line.endswith(f"# {mark}"))


@pytest.mark.parametrize(
    ("name", "exit_code", "code", "said"),
    [
        ("branch", 2, "trace", "cannot trace"),
        ("item", 2, "trace", "cannot trace"),
        ("silent", 2, "model-input", "RGB image"),
        ("two", 2, "model-output", "tuple"),
        ("two_inputs", 2, "model-input", "'y'"),
        ("no_layers", 3, "no-layers", "nothing to quantize"),
        ("gray", 2, "model-input", "1 channels"),
        ("fails", 2, "model", "no luck"),
        ("leaves", 2, "model", "SystemExit"),
        ("number", 2, "model", "int"),
        ("headless", 2, "model-output", "(1, 8, 30, 30)"),
        ("lazy", 2, "model", "lazy"),
        ("not_a_number", 2, "weights", "5.bias"),
    ],
)
def test_a_wrong_network(small, name, exit_code, code, said):
    error = refused(small(name), exit_code, code)
    assert said in error["what"]
    if name.upper() in MODELS:
        assert error["where"].endswith(f"models.py:{line_of(name.upper())}")


def save(path, *, classes=5, change=None):
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, 2, 1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8, classes),
    )
    state = net.state_dict()
    if change:
        change(state)
    torch.save(state, path)
    return Path(path).read_bytes()


def write_weights(case):
    if case == "garbage":
        Path("w.pth").write_bytes(bytes(range(256)) * 8)
    elif case == "truncated":
        Path("w.pth").write_bytes(save("w.pth")[:1500])
    elif case == "code":
        Path("w.pth").write_bytes(pickle.dumps({"a": Evil()}))
    elif case == "no table":
        torch.save([1, 2], "w.pth")
    elif case == "not a number":
        save("w.pth", change=lambda state: state["0.weight"].fill_(float("nan")))
    elif case == "another architecture":
        save("w.pth", change=lambda state: state.pop("0.weight"))


@pytest.mark.parametrize("case", ["garbage", "truncated", "code", "no table", "not a number", "another architecture"])
def test_wrong_weights(small, case):
    write_weights(case)
    error = refused(small("tiny", "--weights", "w.pth"), 2, "weights")
    assert error["where"] == "w.pth"
    assert not Path("evil-was-here").exists()
    assert "weights_only" not in error["what"]


def test_garbage_for_safetensors(small):
    Path("w.safetensors").write_bytes(b"x" * 3000)
    refused(small("tiny", "--weights", "w.safetensors"), 2, "weights")


def test_weights_of_another_number_of_classes(small):
    save("w.pth", classes=7)
    error = refused(small("tiny", "--weights", "w.pth", "--classes", "9"), 2, "classes")
    assert "7 classes" in error["what"]


@pytest.mark.parametrize(
    "options", [("--max-latency-ms", "nan"), ("--limit", "99999999999"), ("--seed", "9" * 30), ("--classes", "9" * 12)]
)
def test_numbers_that_make_no_sense(small, options):
    refused(small("tiny", *options), 2, "usage")


def photos(folder, count):
    from PIL import Image

    rng = np.random.default_rng(0)
    Path(folder).mkdir()
    for i in range(count):
        Image.fromarray(rng.integers(0, 256, (40, 48, 3), dtype=np.uint8)).save(f"{folder}/{i}.jpg")


def test_latency_that_cannot_be_met_names_the_nearest_plan(small):
    error = refused(small("tiny", "--max-latency-ms", "0.0000001"), 3, "latency")
    assert "--resolution 32 --precision int8 is the nearest" in error["fix"]
    assert "0.00 ms" not in error["what"]


def test_a_corrupt_photo_is_named_counted_and_skipped(small):
    photos("data", 6)
    Path("data/bad.jpg").write_bytes(b"no photo")
    done = small("half", "--data", "data")
    assert done.code == 0, done.out
    notes = done.document["notes"]
    assert any(note.startswith("skipped photos that cannot be used: 1: data/bad.jpg") for note in notes)
    assert any("few photos: " in note for note in notes)


def test_what_a_factory_loads_or_imports_itself_is_kept_and_counts(small, edgekit_):
    save("trained.pth", change=lambda state: state["1.running_mean"].fill_(0.25))
    Path("width.py").write_text("WIDTH = 8\n")
    Path("own.py").write_text(
        "import torch\nfrom models import tiny\nfrom width import WIDTH\n"
        "def make():\n    net = tiny()\n    net.load_state_dict(torch.load('trained.pth'))\n    return net\n"
    )
    command = (*SMALL, "--model", "own.py:make", "--json")
    first = edgekit_(*command).document
    assert not any("random weights" in note for note in first["notes"])
    kept = torch.load(next(Path("store").rglob("weights.pt")), weights_only=True)
    assert torch.equal(kept["1.running_mean"], torch.full((8,), 0.25))
    assert all(stage["cached"] for stage in edgekit_(*command).document["stages"])
    Path("width.py").write_text("WIDTH = 8  # mended\n")
    assert not edgekit_(*command).document["stages"][0]["cached"]
    save("trained.pth", change=lambda state: state["1.running_mean"].fill_(0.5))
    assert edgekit_(*command).document["digest"] != first["digest"]


@pytest.mark.slow
def test_one_file_is_built_run_verified_and_inspected(small, edgekit_):
    photos("data", 4)
    done = small("tiny", "--zip")
    assert done.code == 0, done.out
    assert Path("out.ekb").is_file()
    assert edgekit_("verify", "out.ekb", "--json").document["ok"] is True
    assert edgekit_("inspect", "out.ekb", "--json").document["payloads"][0]["engine"] == "onnx"
    assert edgekit_("run", "out.ekb", "data/0.jpg", "--json").document["engine"] == "onnx"
    (error,) = edgekit_("run", "out.ekb", "data/0.jpg", "--engine", "litert", "--json").document.values()
    assert "litert" in error["what"]

"""Model families: read without being run."""

import subprocess
import sys
from pathlib import Path

import pytest

from edgekit.spec.errors import InputError
from edgekit.spec.model import WeightsSource, specs_from_file

ROOT = Path(__file__).parents[2]
FIELDS = '"task": "image-classification", "classes": 10, "resolution_px": 224, "mean": (0, 0, 0), "std": (255, 255, 255)'


def read(folder, text):
    path = folder / "family.py"
    path.write_text(text, encoding="utf-8")
    return specs_from_file(path)


def test_a_family(tmp_path):
    text = f"""raise SystemExit('must not run')
SPECS: dict = {{
    "net_a": {{{FIELDS}, "weights": {{"package": "p", "module": "m", "file": "f.pth"}}, "resolutions_px": [160, 192]}},
    "net_b": {{{FIELDS}, "crop_fraction": 0.7}},
}}"""
    first, second = read(tmp_path, text)
    assert (first.name, first.family) == ("net_a", tmp_path / "family.py")
    assert first.weights == WeightsSource("p", "m", "f.pth")
    assert first.resolutions_px == (160, 192)
    assert first.resize_px(224) == 256
    assert second.resize_px(224) == 320
    assert second.weights is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = (", "cannot read"),
        ("x = 1", "no SPECS"),
        ("SPECS = make()", "literal"),
        ("SPECS = []", "no SPECS"),
        ("SPECS = {'Net A': {}}", "lower case"),
        ("SPECS = {'a': 1}", "dict"),
        ("SPECS = {'a': {}}", "'task' is missing"),
        (f"SPECS = {{'a': {{{FIELDS}, 'clases': 1}}}}", "clases"),
        (f"SPECS = {{'a': {{{FIELDS}, 'name': 'b'}}}}", "follows from the file"),
        (f"SPECS = {{'a': {{{FIELDS}, 'filter': 'nearest'}}}}", "nearest"),
        (f"SPECS = {{'a': {{{FIELDS}, 'crop_fraction': 1.5}}}}", "crop_fraction"),
        (f"SPECS = {{'a': {{{FIELDS}, 'std': (1, 0, 1)}}}}", "std"),
        (f"SPECS = {{'a': {{{FIELDS}, 'std': (float('nan'), 1, 1)}}}}", "literal"),
        (f"SPECS = {{'a': {{{FIELDS}, 'std': (1e999, 1, 1)}}}}", "finite"),
        (f"SPECS = {{'a': {{{FIELDS}, 'resolutions_px': (224, 160)}}}}", "resolutions_px"),
        (f"SPECS = {{'a': {{{FIELDS}, 'weights': {{'package': 'p'}}}}}}", "module"),
    ],
)
def test_mistakes(tmp_path, text, says):
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert says in str(caught.value)
    assert "family.py" in caught.value.where
    assert caught.value.code == "model-spec"


@pytest.mark.parametrize("path", sorted((ROOT / "models").glob("[!_]*.py")), ids=lambda p: p.stem)
def test_shipped_families(path):
    assert specs_from_file(path)


def test_listing_runs_nothing():
    script = (
        "import sys, pathlib; from edgekit.spec.model import specs_from_file\n"
        "[specs_from_file(p) for p in pathlib.Path(sys.argv[1]).glob('[!_]*.py')]\n"
        "assert not {'torch', 'numpy', 'jsonschema'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-I", "-c", script, str(ROOT / "models")], check=True)

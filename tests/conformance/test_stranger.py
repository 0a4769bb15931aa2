"""docs/bundle-format.md is enough: a reader made from it alone agrees with this implementation."""

import ast
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import stranger
import stranger_text

from edgekit.spec.bundle import open_bundle
from edgekit.spec.manifest import Rung

HERE = Path(__file__).parent
CASES = json.loads((HERE / "bundles.json").read_text(encoding="utf-8"))["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["name"])
def test_same_verdict(case):
    if case["error"]:
        with pytest.raises(stranger.Refused):
            stranger.read(HERE / case["path"])
        return
    files = stranger.read(HERE / case["path"])
    with open_bundle(HERE / case["path"]) as bundle:
        assert {name: bundle.read(name) for name in bundle.files} == {n: files[n] for n in files if n not in stranger.FIRST}


@pytest.mark.parametrize("filter_name", ["bilinear", "bicubic"])
@pytest.mark.parametrize(
    ("height", "width", "resize_px", "resolution_px"),
    [(7, 5, 4, 3), (5, 7, 9, 8), (6, 6, 6, 4), (40, 31, 8, 7), (1, 3, 5, 5), (3, 50, 2, 2), (13, 12, 13, 12)],
)
def test_same_pixels(filter_name, height, width, resize_px, resolution_px):
    from edgekit.runtime.pixels import crop_pixels

    image = np.random.default_rng(height * width).integers(0, 256, (height, width, 3), np.uint8)
    found = crop_pixels(image, Rung("low", resolution_px, resize_px), filter_name=filter_name)
    for channel in range(3):
        wanted = stranger.prepare(image[:, :, channel].tolist(), resize_px, resolution_px, filter_name)
        assert found[:, :, channel].tolist() == wanted


def test_same_ids():
    data = json.loads((HERE / "wordpiece.json").read_text(encoding="utf-8"))
    ids = {token: i for i, token in enumerate(data["vocabulary"])}
    classes = stranger_text.classes_of(HERE.parents[1] / "edgekit/runtime/wordpiece_tables.py")
    for case in data["cases"]:
        assert stranger_text.wordpiece(case["text"], case, ids=ids, classes=classes) == case["ids"], case["name"]


def test_same_climbs():
    for case in json.loads((HERE / "ladder.json").read_text(encoding="utf-8"))["cases"]:
        assert stranger.climb(case) == (case["rung"], case["margin"], case["stopped_by"], case["takes"]), case["name"]


@pytest.mark.parametrize("module", [stranger, stranger_text])
def test_it_is_a_stranger(module):
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    imported |= {n.module.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert imported <= set(sys.stdlib_module_names)

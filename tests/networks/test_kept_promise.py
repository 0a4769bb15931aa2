"""A pretrained network fitted to real photos and guarded, smaller than for real use: 64 px, two epochs."""

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("EDGEKIT_SHARED", Path(__file__).parents[3] / "shared"))
CLOTHING = SHARED / "data" / "clothing"
BUILD = "build --model efficientnet_lite0 --resolution 64 --epochs 2 --engines onnx,litert --target host --max-drop 3.0"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CLOTHING.is_dir(), reason="no photos of clothing: set EDGEKIT_SHARED"),
]


@pytest.fixture(scope="module")
def guarded(edgekit, tmp_path_factory):
    """(folder of the bundle, document of the build)."""
    out = tmp_path_factory.mktemp("guarded") / "lite0"
    code, document = edgekit(*BUILD.split(), "--data", CLOTHING, "-o", out)
    assert code == 0, document
    return out, document


def test_it_learns_the_classes(guarded):
    (network,) = guarded[1]["networks"]
    assert network["n"] == 341
    assert network["top1"] > 0.45


def test_the_promise_is_kept_on_photos_that_nothing_saw(guarded):
    """By the bound, as far as 341 photos can tell: the lower end of the interval of the drop must not lie above it."""
    document = guarded[1]
    for row in document["payloads"]:
        promise = document["guard"]["chosen"]["promises"][f"{row['engine']}-int8"]
        assert promise["n"] == 614
        assert promise["bound_pp"] <= 3.0
        assert row["interval_pp"][0] <= promise["bound_pp"]


def test_the_bundle_knows_the_classes(guarded):
    names = sorted(p.name for p in (CLOTHING / "train").iterdir() if p.is_dir())
    assert (guarded[0] / "labels.txt").read_text().split() == names

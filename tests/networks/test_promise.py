"""A pretrained network fitted to real photos and guarded, smaller than for real use: 64 px, one epoch."""

import pytest
from conftest import SHARED

CLOTHING = SHARED / "data" / "clothing"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CLOTHING.is_dir(), reason="no photos of clothing: set EDGEKIT_SHARED"),
]


@pytest.fixture(scope="module")
def guarded(edgekit, tmp_path_factory):
    out = tmp_path_factory.mktemp("guarded") / "lite0"
    options = (
        "--model efficientnet_lite0 --resolution 64 --epochs 2 --engines onnx,litert --target host --max-drop 3.0 --device cpu"
    )
    code, document = edgekit("build", *options.split(), "--data", CLOTHING, "-o", out)
    assert code in (0, 3), document
    return out, code, document


def test_it_learns_the_classes(guarded):
    out, code, document = guarded
    if code == 3:
        assert document["error"]["code"] == "max-drop"
        pytest.skip(f"the promise was refused, with reasons: {document['error']['what']}")
    (network,) = document["networks"]
    assert network["n"] == 341
    assert network["top1"] > 0.45


def test_the_promise_is_kept_on_photos_that_nothing_saw(guarded):
    """By the bound, and what 341 photos can tell: the lower end of the interval of the drop must not be above it."""
    out, code, document = guarded
    if code == 3:
        pytest.skip("the promise was refused")
    chosen = document["guard"]["chosen"]
    for row in document["payloads"]:
        promise = chosen["promises"][f"{row['engine']}-int8"]
        assert promise["bound_pp"] <= 3.0
        assert row["interval_pp"][0] <= promise["bound_pp"]


def test_the_bundle_knows_the_classes(guarded):
    out, _, _ = guarded
    assert (out / "labels.txt").read_text().split() == sorted(p.name for p in (CLOTHING / "train").iterdir() if p.is_dir())

"""The vectors that every reader must reproduce, and the tables behind them."""

import json
from pathlib import Path

import numpy as np
import pytest

from edgekit.runtime.pixels import apply_table, crop_pixels, make_table, read_table, resized, round_half_away
from edgekit.runtime.resize import resize, resize_with_numpy
from edgekit.spec.errors import BundleError
from edgekit.spec.manifest import Preprocess, Rung, TensorSpec

FOLDER = Path(__file__).parents[1] / "conformance" / "pixels"
VECTORS = json.loads((FOLDER / "vectors.json").read_text())


def load(part, dtype="uint8"):
    return np.frombuffer((FOLDER / part["file"]).read_bytes(), np.dtype(dtype).newbyteorder("<")).reshape(part["shape"])


def spec(case, layout="NCHW"):
    return TensorSpec("x", case["dtype"], (1, 3, 4, 64), layout, case["scale"], case["zero_point"])


@pytest.mark.parametrize("case", VECTORS["resize"], ids=lambda c: c["output"]["file"])
def test_resize(case):
    image, wanted = load(case["input"]), load(case["output"])
    size = (wanted.shape[1], wanted.shape[0])
    for function in (resize_with_numpy, resize):
        np.testing.assert_array_equal(function(image, size, filter_name=case["filter"]), wanted)


@pytest.mark.parametrize("case", VECTORS["crop"], ids=lambda c: c["output"]["file"])
def test_crop(case):
    rung = Rung("full", case["resolution_px"], case["resize_px"])
    np.testing.assert_array_equal(crop_pixels(load(case["input"]), rung, filter_name=case["filter"]), load(case["output"]))


@pytest.mark.parametrize("case", VECTORS["table"], ids=lambda c: c["name"])
def test_table(case):
    table = make_table(Preprocess("RGB", "bilinear", tuple(case["mean"]), tuple(case["std"])), spec(case))
    wanted = load(case["table"], case["dtype"])
    np.testing.assert_array_equal(table, wanted)
    np.testing.assert_array_equal(read_table(wanted.tobytes(), spec(case), where="t"), wanted)
    for layout in ("NCHW", "NHWC"):
        tensor = apply_table(load(case["input"]), table, layout=layout)
        assert tensor.flags.c_contiguous
        np.testing.assert_array_equal(tensor, load(case[layout], case["dtype"]))


def test_vectors_hold_ties_on_both_sides_of_zero():
    cases = [case for case in VECTORS["table"] if case["name"].startswith("ties")]
    for case in cases:
        steps = (np.arange(256) - case["mean"][0]) / case["std"][0] / case["scale"]
        ties = steps[np.abs(steps % 1) == 0.5]
        assert (ties > 0).any()
        assert (ties < 0).any()


def test_half_goes_away_from_zero():
    values = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999999999999994, -0.49999999999999994, 1e15 + 0.5, 3.0, -0.0]
    wanted = [1, 2, 3, -1, -2, -3, 0, 0, 1e15 + 1, 3, 0]
    np.testing.assert_array_equal(round_half_away(np.array(values)), wanted)


@pytest.mark.parametrize(
    ("width", "height", "resize_px", "wanted"),
    [(500, 375, 256, (341, 256)), (375, 500, 256, (256, 341)), (224, 224, 224, (224, 224)), (3, 2, 5, (8, 5)), (1, 1, 9, (9, 9))],
)
def test_shorter_side(width, height, resize_px, wanted):
    assert resized(width, height, resize_px=resize_px) == wanted


def test_bad_table_and_layout():
    with pytest.raises(BundleError, match="has 768 bytes, this one 767"):
        read_table(b"x" * 767, TensorSpec("x", "int8", (1, 3, 2, 2), "NCHW", 1.0, 0), where="tables/int8.bin")
    with pytest.raises(BundleError, match="layout 'NC'"):
        apply_table(np.zeros((2, 2, 3), np.uint8), np.zeros((3, 256), np.int8), layout="NC")
    with pytest.raises(BundleError, match="no scale"):
        make_table(Preprocess("RGB", "bilinear", (0, 0, 0), (1, 1, 1)), TensorSpec("x", "int8", (1, 3, 2, 2), "NCHW"))
    with pytest.raises(BundleError, match="smaller than resolution_px"):
        crop_pixels(np.zeros((9, 9, 3), np.uint8), Rung("full", 8, 7), filter_name="bilinear")

"""Goldens and the comparison of payloads."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import tiny_bundles
import tiny_payloads as tiny

from edgekit.runtime.decode import best_labels, probabilities, read_labels
from edgekit.runtime.verify import check_goldens, compare
from edgekit.spec.bundle import open_bundle
from edgekit.spec.errors import BundleError, InputError
from edgekit.spec.manifest import TensorSpec


@pytest.fixture
def reader(tmp_path):
    with open_bundle(tiny_bundles.write(tmp_path / "b", {"onnx": b"no network"})) as opened:
        yield opened


def session(shift=0):
    def run(x):
        return ((tiny.reference(x).astype(np.int16) + shift).clip(-128, 127).astype(np.int8),)

    return SimpleNamespace(run=run)


@pytest.mark.parametrize(("shift", "difference", "ok"), [(0, 0, True), (1, 1, True), (-2, 2, False)])
def test_goldens(reader, shift, difference, ok):
    result = check_goldens(session(shift), reader, reader.manifest.payloads[0])
    assert (result.n, result.max_difference, result.tolerance, result.ok) == (tiny.IMAGES, difference, 1, ok)


def test_goldens_of_a_session_that_gives_no_numbers(reader):
    def run(_):
        return (np.full((1, tiny.CLASSES), math.nan, np.float32),)

    result = check_goldens(run, reader, reader.manifest.payloads[0])
    assert (result.max_difference, result.ok) == (math.inf, False)


def test_goldens_of_another_network(reader):
    with pytest.raises(BundleError, match=r"outputs are \[4, 3\], goldens \[4, 10\]"):
        check_goldens(lambda _: (np.zeros((1, 3), np.int8),), reader, reader.manifest.payloads[0])


def test_compare_int8_with_uint8():
    a = np.array([[5, -12, 3], [20, 20, -128]], np.int8)
    b = (a.astype(np.int16) + 128).astype(np.uint8)
    same = compare(a, b)
    assert (same.n, same.agreement_top1, same.mean_steps, same.max_steps, same.equal_share) == (2, 1, 0, 0, 1)
    b[1, 1] += 2
    other = compare(a, b)
    assert (other.agreement_top1, other.max_steps) == (0.5, 2)
    assert other.mean_steps == pytest.approx(2 / 6)
    assert other.equal_share == pytest.approx(5 / 6)


def test_compare_floats_in_steps():
    a = np.array([[1.0, 2.0]], np.float32)
    assert compare(a, a + np.float32(0.5), scale=0.25).max_steps == 2


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.zeros((2, 3), np.int8), np.zeros((3, 3), np.int8)),
        (np.zeros((0, 3), np.int8), np.zeros((0, 3), np.int8)),
        (np.zeros((2, 3), np.int8), np.zeros((2, 3), np.float32)),
        (np.zeros(3, np.int8), np.zeros(3, np.int8)),
    ],
)
def test_compare_refuses(a, b):
    with pytest.raises(InputError, match="cannot compare"):
        compare(a, b)


def test_probabilities_do_not_depend_on_the_zero_point():
    real = np.array([1.0, 2.0, 3.0])
    wanted = np.exp(real) / np.exp(real).sum()
    for dtype, zero_point in (("int8", -5), ("uint8", 123)):
        steps = (real / 0.5 + zero_point).astype(dtype)
        scores = probabilities(steps, TensorSpec("l", dtype, (1, 3), "NC", 0.5, zero_point))
        np.testing.assert_allclose(scores, wanted)
    np.testing.assert_allclose(probabilities(real.astype(np.float32), TensorSpec("l", "float32", (1, 3), "NC")), wanted)
    huge = np.array([1e4, -1e4], np.float32)
    np.testing.assert_array_equal(probabilities(huge, TensorSpec("l", "float32", (1, 2), "NC")), [1, 0])


def test_best_labels_break_ties_by_index():
    spec = TensorSpec("l", "int8", (1, 4), "NC", 0.1, 0)
    found = best_labels(np.array([-128, 7, 127, 7], np.int8), spec, names=("a", "b", "c", "d"), top=3)
    assert [(label.name, label.index) for label in found] == [("c", 2), ("b", 1), ("d", 3)]
    assert found[0].score > found[1].score == found[2].score
    nameless = best_labels(np.array([1, 2], np.uint8), spec, names=(), top=5)
    assert [label.name for label in nameless] == ["1", "0"]


def test_labels_file():
    assert read_labels(b"a\nb c\n", classes=2, where="labels.txt") == ("a", "b c")
    with pytest.raises(BundleError, match="1 labels for 2 classes"):
        read_labels(b"a\n", classes=2, where="labels.txt")
    with pytest.raises(BundleError, match="not UTF-8"):
        read_labels(b"\xff\n", classes=1, where="labels.txt")

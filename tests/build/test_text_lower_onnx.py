"""ONNX payloads of a small text network, run by ONNX Runtime."""

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
from text_toys import answer, text, texts, toy

from edgekit.build.text.integers import TABLE, matched, snap
from edgekit.build.text.lower_onnx import LEAST_COLUMNS, lower, weights_of
from edgekit.spec.errors import InputError, UnknownName

TOKENS = (8, 16)
TOLERANCE = {"fp32": 1e-5, "fp16": 5e-3, "int8": 0.05, "int8-weights": 1e-5, "int8-static": 0.1}
"""Largest difference to torch's float32 answer, as a share of its largest value."""


@pytest.fixture(scope="module")
def snapped():
    plain = toy()
    return plain, snap(plain)


def run(payload, ids, keep):
    session = onnxruntime.InferenceSession(payload, providers=["CPUExecutionProvider"])
    return session.run(None, {"ids": ids, "keep": keep})[0]


def kinds(payload):
    return Counter(node.op_type for node in onnx.load_from_string(payload).graph.node)


@pytest.fixture(scope="module")
def lowered(snapped):
    """Payloads by precision, each made once."""
    made = {}

    def of(precision):
        if precision not in made:
            made[precision] = lower(snapped[0], tokens=TOKENS, precision=precision, samples=texts())
        return made[precision]

    return of


SLOW = ("fp16", "int8-weights", "int8-static")


@pytest.mark.parametrize("precision", ["fp32", "int8", *(pytest.param(p, marks=pytest.mark.slow) for p in SLOW)])
def test_each_precision_answers_in_each_bucket(snapped, lowered, precision):
    plain, grids = snapped
    made = lowered(precision)
    assert [b.tokens for b in made.buckets] == list(TOKENS)
    assert [i.dtype for i in made.buckets[0].inputs] == ["int64", "float32"]
    assert made.buckets[1].outputs[0].shape == (1, 5)
    for tokens in TOKENS:
        ids, keep = text(tokens, used=tokens - 3)
        real = answer(plain, ids, keep)
        assert np.abs(run(made.payload, ids, keep) - real).max() <= TOLERANCE[precision] * np.abs(real).max()
    expected = tuple(grids) if precision.startswith("int8") else ()
    assert matched(weights_of(made.payload), grids) == expected


def test_padding_does_not_count(lowered):
    payload = lowered("fp32").payload
    ids, keep = text(16, used=8)
    assert np.allclose(run(payload, ids[:, :8], keep[:, :8]), run(payload, ids, keep), atol=1e-5)


def test_narrow_layers_compute_in_float_on_the_same_integers(snapped, lowered):
    _, grids = snapped
    wide = sum(grid.values.shape[1] >= LEAST_COLUMNS for name, grid in grids.items() if name != TABLE)
    found = kinds(lowered("int8").payload)
    assert 0 < wide < len(grids) - 1
    assert found["MatMulInteger"] == wide
    assert found["Gemm"] == len(grids) - 1 - wide


def test_layers_of_one_input_share_its_quantization(monkeypatch):
    monkeypatch.setattr("edgekit.build.text.lower_onnx.LEAST_COLUMNS", 1)
    plain = toy()
    found = kinds(lower(plain, tokens=TOKENS, precision="int8").payload)
    assert found["MatMulInteger"] == len(plain.linears())
    assert found["DynamicQuantizeLinear"] == len(plain.linears()) - 2  # q, k and v read one state


def test_shifts_move_into_biases_there_or_not():
    plain = toy()
    # The exporter drops a bias of zeros; that of `down` stays.
    plain.linears()["layers.0.o"].bias.zero_()
    payload = lower(plain, tokens=TOKENS, precision="fp32").payload
    # Left: positions, mask, two sums; the shift of the embedding's norm and of the first norm are in the biases of o and down.
    assert kinds(payload)["Add"] == 4
    ids, keep = text(16, used=13)
    real = answer(plain, ids, keep)
    assert np.abs(run(payload, ids, keep) - real).max() <= TOLERANCE["fp32"] * np.abs(real).max()


@pytest.mark.slow
def test_float_layers_keep_their_weights():
    plain = toy()
    name = "layers.0.down"
    grids = snap(plain)
    payload = lower(plain, tokens=TOKENS, precision="int8", float_layers=(name,)).payload
    assert set(grids) - set(matched(weights_of(payload), grids)) == {name}
    assert kinds(payload)["MatMulInteger"] == 0


def test_payload_tells_nothing_of_this_machine(snapped, lowered):
    plain, _ = snapped
    payload = lowered("int8").payload
    for word in (b"site-packages", b"/work", b"pkg.torch", b"text_toys"):
        assert word not in payload
    assert payload == lower(plain, tokens=TOKENS, precision="int8").payload


def test_refusals_before_any_work(snapped):
    plain, _ = snapped
    with pytest.raises(InputError, match="ascending"):
        lower(plain, tokens=(16, 8), precision="int8")
    with pytest.raises(UnknownName, match="int8"):
        lower(plain, tokens=TOKENS, precision="int4")
    with pytest.raises(UnknownName, match="head"):
        lower(plain, tokens=TOKENS, precision="int8", float_layers=("haed",))
    with pytest.raises(InputError, match="no texts"):
        lower(plain, tokens=TOKENS, precision="int8-static")

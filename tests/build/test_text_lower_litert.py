"""TFLite payloads of a small text network, run by LiteRT."""

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from text_toys import answer, text, toy

from edgekit.build.text.integers import matched, snap
from edgekit.build.text.lower_litert import lower, weights_of
from edgekit.spec.errors import GoalError

TOKENS = (8, 16)
TOLERANCE = {"fp32": 1e-5, "fp16": 5e-3, "int8": 0.05, "int8-weights": 1e-5}
"""Largest difference to torch's float32 answer, as a share of its largest value."""


@pytest.fixture(scope="module")
def snapped():
    plain = toy()
    return plain, snap(plain)


def run(payload, ids, keep):
    runner = Interpreter(model_content=payload, num_threads=1).get_signature_runner(f"tokens_{ids.shape[1]}")
    return runner(args_0=ids.astype(np.int32), args_1=keep)["output_0"]


@pytest.fixture(scope="module")
def lowered_int8(snapped):
    return lower(snapped[0], tokens=TOKENS, precision="int8")


def answers(lowered, plain, precision):
    """Close to torch's answer in every bucket."""
    assert [b.method for b in lowered.buckets] == ["tokens_8", "tokens_16"]
    assert [i.dtype for i in lowered.buckets[0].inputs] == ["int32", "float32"]
    for tokens in TOKENS:
        ids, keep = text(tokens, used=tokens - 3)
        real = answer(plain, ids, keep)
        assert np.abs(run(lowered.payload, ids, keep) - real).max() <= TOLERANCE[precision] * np.abs(real).max()


def test_int8_answers_in_each_bucket_from_weights_that_are_there_once(snapped, lowered_int8):
    plain, grids = snapped
    answers(lowered_int8, plain, "int8")
    found = weights_of(lowered_int8.payload)
    assert matched(found, grids) == tuple(grids)
    values = {grid.values.tobytes() for grid in grids.values()}
    assert sum(array.tobytes() in values for array in found) == len(grids)


@pytest.mark.parametrize("precision", ["fp32", *(pytest.param(p, marks=pytest.mark.slow) for p in ("fp16", "int8-weights"))])
def test_each_other_precision_answers_in_each_bucket(snapped, precision):
    plain, grids = snapped
    lowered = lower(plain, tokens=TOKENS, precision=precision)
    answers(lowered, plain, precision)
    expected = tuple(grids) if precision.startswith("int8") else ()
    assert matched(weights_of(lowered.payload), grids) == expected


def test_the_delegate_takes_all_but_the_look_up(lowered_int8):
    interpreter = Interpreter(model_content=lowered_int8.payload, num_threads=1)
    interpreter.allocate_tensors()
    assert sum(op["op_name"] == "DELEGATE" for op in interpreter._get_ops_details()) <= 2


@pytest.mark.slow
def test_float_layers_keep_their_weights():
    plain = toy()
    name = "layers.0.down"
    grids = snap(plain)
    payload = lower(plain, tokens=TOKENS[:1], precision="int8", float_layers=(name,)).payload
    assert set(grids) - set(matched(weights_of(payload), grids)) == {name}


def test_no_static_payload(snapped):
    with pytest.raises(GoalError, match="int8-static"):
        lower(snapped[0], tokens=TOKENS, precision="int8-static")

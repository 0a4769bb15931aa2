"""ExecuTorch payloads of a small text network, run by ExecuTorch. They take long to make: most precisions are slow tests."""

import numpy as np
import pytest
import torch
from text_toys import answer, text, texts, toy

from edgekit.build.text.integers import matched, snap
from edgekit.build.text.lower_executorch import lower, weights_of
from edgekit.runtime.engines.pte import read_plans
from edgekit.spec.errors import GoalError

TOKENS = (8, 16)
TOLERANCE = {"fp32": 1e-5, "fp16": 0.02, "int8": 0.05, "int8-static": 0.1}
"""Largest difference to torch's float32 answer, as a share of its largest value."""


@pytest.fixture(scope="module")
def snapped():
    plain = toy()
    return plain, snap(plain)


def run(payload, ids, keep, folder):
    from executorch.extension.pybindings import _C

    path = folder / "model.pte"
    path.write_bytes(payload)
    program = _C._load_program(str(path))
    method = program.load_method(f"tokens_{ids.shape[1]}")
    return method([torch.from_numpy(ids), torch.from_numpy(keep)])[0].numpy().copy()


@pytest.mark.parametrize(
    "precision", ["int8", *(pytest.param(p, marks=pytest.mark.slow) for p in ("fp32", "fp16", "int8-static"))]
)
def test_each_precision_answers_in_each_bucket(snapped, precision, tmp_path):
    plain, grids = snapped
    samples = texts()
    lowered = lower(plain, tokens=TOKENS, precision=precision, samples=samples)
    assert [b.method for b in lowered.buckets] == ["tokens_8", "tokens_16"]
    assert [i.dtype for i in lowered.buckets[0].inputs] == ["int64", "float32"]
    for tokens in TOKENS:
        ids, keep = text(tokens, used=tokens - 3)
        real = answer(plain, ids, keep)
        given = run(lowered.payload, ids, keep, tmp_path)
        assert given.dtype == np.float32
        assert np.abs(given - real).max() <= TOLERANCE[precision] * np.abs(real).max()
    if precision.startswith("int8"):
        found = weights_of(lowered.payload)
        assert matched(found, grids) == tuple(grids)
        # Once each, though two methods read them.
        values = {grid.values.tobytes() for grid in grids.values()}
        assert sum(array.tobytes() in values for array in found) == len(grids)
    for plan in read_plans(lowered.payload):
        assert len(plan.delegate_calls) <= 2, plan


@pytest.mark.slow
def test_float_layers_keep_their_weights():
    plain = toy()
    name = "layers.0.down"
    grids = snap(plain)
    payload = lower(plain, tokens=TOKENS[:1], precision="int8", float_layers=(name,)).payload
    assert set(grids) - set(matched(weights_of(payload), grids)) == {name}


def test_no_payload_of_weights_alone(snapped):
    with pytest.raises(GoalError, match="int8-weights"):
        lower(snapped[0], tokens=TOKENS, precision="int8-weights")

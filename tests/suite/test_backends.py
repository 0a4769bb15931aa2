"""Every case on every backend: the integers of the simulation come out, nothing is float without need, one delegate takes all."""

import numpy as np
import pytest
from cases.case import Expected

from edgekit import catalog
from edgekit.build.gates import check_layers, check_payload
from edgekit.spec.errors import GoalError

pytestmark = pytest.mark.slow

FP32_ERROR = 1e-5
"""Largest accepted error of a float payload, relative to the largest output: engines sum in another order."""


def built(bench, case, backend, precision):
    engine = catalog.find_engine(backend)
    if engine.version() is None:
        pytest.skip(f"{backend} is not installed: {engine.INSTALL}")
    return bench.payload(case, backend, precision)


def test_integers_are_those_of_the_simulation(bench, case, backend):
    payload = built(bench, case, backend, "int8")
    expected = case.expected.get(backend, Expected())
    assert payload.refused == expected.refused
    if payload.refused:
        return
    found = bench.difference(case, backend)
    if expected.wrong:
        assert found.max_steps > case.max_steps, f"{backend} is right now: drop `wrong` from the case"
        return
    assert found.max_steps <= case.max_steps
    assert found.mean_steps <= case.mean_steps


def test_operators_are_integer_and_delegated(bench, case, backend):
    payload = built(bench, case, backend, "int8")
    expected = case.expected.get(backend, Expected())
    if payload.refused:
        return
    # Equal, not fewer: an operator that became integer must leave the case's record as well.
    assert payload.islands == expected.islands, payload.operators
    assert payload.kernels == expected.kernels, payload.operators
    if payload.calls is not None:
        assert payload.calls == expected.calls


def test_gates_allow_the_named_float_layers_and_no_other(bench, case, backend):
    payload = built(bench, case, backend, "int8")
    if payload.refused:
        return
    quantized = bench.simulation(case).quantized
    meant = len(case.float_layers)
    assert len(quantized.float_layers) == meant
    check_layers(quantized.folded, allowed=quantized.float_layers)
    check_payload(backend, payload.placement, allowed=meant)
    for other in {max(meant - 1, 0), meant + 1} - {meant}:
        with pytest.raises(GoalError, match="float operators"):
            check_payload(backend, payload.placement, allowed=other)


def test_engines_agree(bench, case):
    backends = [b for b in catalog.lowering_names() if catalog.find_engine(b).version() is not None]
    right = [b for b in backends if not case.expected.get(b, Expected()).wrong]
    for a, b, found in bench.pairs(case, right):
        assert found.max_steps <= case.max_steps, (a, b)
        assert found.mean_steps <= case.mean_steps, (a, b)


def test_quantizing_keeps_the_signal(bench, case):
    assert bench.simulation(case).snr_db >= case.min_snr_db


def test_float_payloads_give_what_torch_gives(bench, case, precision, backend):
    payload = built(bench, case, backend, precision)
    expected = case.expected.get(backend, Expected())
    assert payload.refused == ""
    wanted = bench.float_outputs(case)
    error = float(np.abs(payload.outputs - wanted).max() / np.abs(wanted).max())
    limit = FP32_ERROR if precision == "fp32" else case.fp16_error
    if expected.wrong_float:
        assert error > limit, f"{backend} is right now: drop `wrong_float` from the case"
        return
    assert error <= limit

"""Operators of payloads of engines from elsewhere."""

import importlib.metadata
import sys
import types

import pytest

from edgekit.build import operators
from edgekit.spec.errors import UnknownName
from edgekit.spec.manifest import OperatorCount, Placement


def test_an_engine_from_elsewhere_reads_its_own_payloads(monkeypatch, tmp_path):
    found = Placement("NPU", 1, (OperatorCount("Conv", "float32", 2), OperatorCount("Add", "float32", 1)))
    module = types.ModuleType("acme_edge")
    module.placement = lambda path: found
    monkeypatch.setitem(sys.modules, "acme_edge", module)
    point = importlib.metadata.EntryPoint("acme", "acme_edge", "edgekit.lowerings")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **options: (point,))
    assert operators.read("acme", tmp_path / "x.acme") == found
    assert [o.type for o in operators.float_operators(found)] == ["Conv"]


def test_an_unknown_engine_is_an_error(tmp_path):
    with pytest.raises(UnknownName, match="onxx"):
        operators.read("onxx", tmp_path / "x.onnx")


@pytest.mark.parametrize(
    ("flatc", "python"), [('{"a": inf, "b": -inf}', '{"a": Infinity, "b": -Infinity}'), ('{"a": "inf"}', '{"a": "inf"}')]
)
def test_bounds_without_end_are_read(flatc, python):
    assert operators.NON_FINITE.sub(lambda found: operators.NON_FINITE_NAMES[found[0]], flatc) == python

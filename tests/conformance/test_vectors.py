"""This implementation against the vectors, and the vectors against their own law."""

import hashlib
import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import tiny

from edgekit.spec.bundle import open_bundle, parse_manifest
from edgekit.spec.errors import BundleError
from edgekit.spec.schema import load_schema

HERE = Path(__file__).parent
KINDS = ("manifests", "bundles", "quantize", "tables", "ladder", "decode", "wordpiece")


def vectors(kind):
    return json.loads((HERE / f"{kind}.json").read_text(encoding="utf-8"))["cases"]


def named(kind):
    return [pytest.param(case, id=case["name"]) for case in vectors(kind)]


def check_refusal(code, call, *args):
    with pytest.raises(BundleError) as caught:
        call(*args)
    assert caught.value.code == code
    assert all((caught.value.what, caught.value.where, caught.value.fix))


def test_regenerating_gives_the_same_bytes(tmp_path):
    pytest.importorskip("tokenizers", reason="it makes wordpiece.json")
    import make

    make.main(tmp_path)
    for name in make.MADE:
        for path in [tmp_path / name, *(tmp_path / name).rglob("*")]:
            if path.is_file():
                assert path.read_bytes() == (HERE / path.relative_to(tmp_path)).read_bytes(), path.name
    made, kept = (
        {p.relative_to(r) for name in make.MADE for p in (r / name).rglob("*") if p.is_file()} for r in (tmp_path, HERE)
    )
    assert made == kept


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_keep_their_schema(kind):
    schema = json.loads((HERE / "vectors.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    data = json.loads((HERE / f"{kind}.json").read_text(encoding="utf-8"))
    assert data["kind"] == kind
    jsonschema.Draft202012Validator(schema).validate(data)


@pytest.mark.parametrize("kind", ["manifests", "bundles", "ladder", "decode"])
def test_names_are_unique(kind):
    names = [case["name"] for case in vectors(kind)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("case", named("manifests"))
def test_manifest(case):
    data = (HERE / case["file"]).read_bytes()
    assert hashlib.sha256(data).hexdigest() == case["digest"]
    if case["error"]:
        check_refusal(case["error"], parse_manifest, data)
    else:
        assert parse_manifest(data).format == 1


@pytest.mark.parametrize("case", named("manifests"))
def test_schema_and_reader_agree(case):
    """The schema says what the vector says; whatever it refuses, the reader refuses; what the reader takes, it takes."""
    if case["schema"] is None:
        assert case["error"] is not None
        return
    data = json.loads((HERE / case["file"]).read_bytes())
    taken = jsonschema.Draft202012Validator(load_schema("bundle")).is_valid(data)
    assert taken == case["schema"]
    assert taken or case["error"]


@pytest.mark.parametrize("case", named("bundles"))
def test_bundle(case):
    if case["error"]:
        check_refusal(case["error"], open_bundle, HERE / case["path"])
        return
    with open_bundle(HERE / case["path"]) as bundle:
        assert bundle.digest == case["digest"]
        for name in bundle.files:
            assert bundle.file(name).read_bytes() == bundle.read(name)


def test_error_codes_are_in_the_documentation():
    text = (HERE.parents[1] / "docs/bundle-format.md").read_text(encoding="utf-8")
    codes = {case["error"] for kind in ("manifests", "bundles") for case in vectors(kind)} - {None}
    assert [code for code in sorted(codes) if f"`{code}`" not in text] == []


def test_quantize_has_a_tie_that_float32_gets_wrong():
    case = next(c for c in vectors("quantize") if c["x"] == 0.15)
    assert case["q"] == 1
    assert round(float(np.float32(0.15) / np.float32(0.1)) + 1e-9) == 2


@pytest.mark.parametrize("case", vectors("quantize"), ids=lambda c: f"{c['x']}/{c['scale']}")
def test_quantize_by_numpy(case):
    from edgekit.runtime.pixels import round_half_away

    limits = np.iinfo(case["dtype"])
    steps = round_half_away(np.float64(case["x"]) / np.float64(case["scale"])) + case["zero_point"]
    assert int(np.clip(steps, limits.min, limits.max)) == case["q"]
    assert tiny.quantize(case["x"], case["scale"], case["zero_point"], limits.min, limits.max) == case["q"]


@pytest.mark.parametrize("case", vectors("tables"), ids=lambda c: f"{c['dtype']}-{c['mean'][0]}-{c['scale']}")
def test_table_of_the_runtime(case):
    from edgekit.runtime.pixels import make_table
    from edgekit.spec.manifest import Preprocess, TensorSpec

    spec = TensorSpec("image", case["dtype"], (1, 3, 2, 2), "NCHW", case["scale"], case["zero_point"])
    table = make_table(Preprocess("RGB", "bilinear", tuple(case["mean"]), tuple(case["std"])), spec)
    assert table.dtype == case["dtype"]
    assert table.tolist() == case["values"]


@pytest.mark.parametrize("case", named("ladder"))
def test_ladder_of_the_runtime(case):
    from edgekit.runtime.ladder import Ask, Input, Step, climb_all
    from edgekit.spec.manifest import Margins, Rung

    now_ms, takes = [0.0], []

    def run(i, given):
        now_ms[0] += case["took_ms"][i]
        takes.append(given)
        return np.array([case["logits"][i]], case["dtype"]), i

    steps = []
    for i, (balanced, other) in enumerate(zip(case["min_margins"], case["margins"], strict=True)):
        margins = None if other is None else Margins(*other)
        rung = Rung(f"r{i}", 2, 2, case["continues"][i], balanced, margins)
        steps.append(Step(rung, lambda given, i=i: run(i, given)))
    expected_ms = {f"r{i}": ms for i, ms in enumerate(case["expected_ms"]) if ms is not None}
    given = Input(steps, lambda rung: (None,), used_ms=case["used_ms"], expected_ms=expected_ms)
    ask = Ask(case["floor"], case["ceiling_ms"], clock=lambda: now_ms[0] / 1e3)
    (outcome,) = climb_all([given], ask)
    assert (outcome.index, outcome.margin, outcome.stopped_by) == (case["rung"], case["margin"], case["stopped_by"])
    assert takes == case["takes"]
    assert [run.latency_ms for run in outcome.rungs] == pytest.approx(case["took_ms"][: case["rung"] + 1])


@pytest.mark.parametrize("case", named("decode"))
def test_decode_of_the_runtime(case):
    from edgekit.runtime.decode import best_labels
    from edgekit.spec.manifest import TensorSpec

    spec = TensorSpec("logits", case["dtype"], (1, len(case["logits"])), "NC", case["scale"], case["zero_point"])
    found = best_labels(np.array(case["logits"], case["dtype"]), spec, names=(), top=case["top"])
    assert [int(label.name) for label in found] == case["classes"]
    assert [label.score for label in found] == pytest.approx(case["scores"], abs=case["tolerance"])

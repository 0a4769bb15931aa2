"""Reports: round trip, and refusal of what makes no sense."""

import dataclasses
import json
import math

import jsonschema
import pytest

from edgekit.spec.errors import InputError
from edgekit.spec.report import Measurement, Report, read_report, report_bytes, report_from_bytes, write_report
from edgekit.spec.schema import load_schema

REPORT = Report(
    "0" * 64,
    "snapdragon865",
    "executorch-int8",
    "x86-64, 2 cores",
    {"threads": "1", "executorch": "1.5.1"},
    (Measurement("latency_p50", 6.7, "ms", 60, (6.6, 6.9)), Measurement("top1", 1, "1", 250)),
)


def edited(**changes):
    return json.dumps(json.loads(report_bytes(REPORT)) | changes).encode()


def test_round_trip(tmp_path):
    write_report(REPORT, tmp_path / "deep/r.json")
    assert read_report(tmp_path / "deep/r.json") == REPORT
    assert report_bytes(read_report(tmp_path / "deep/r.json")) == report_bytes(REPORT)
    jsonschema.validate(json.loads(report_bytes(REPORT)), load_schema("report"))


def test_unknown_fields_are_ignored():
    assert report_from_bytes(edited(new=1)) == REPORT


M = {"name": "a", "value": 1, "unit": "ms", "n": 1}


@pytest.mark.parametrize(
    ("changes", "schema"),
    [
        ({"format": 2}, False),
        ({"bundle_sha256": "abc"}, False),
        ({"device": ""}, False),
        ({"conditions": {"threads": 1}}, False),
        ({"measurements": [M | {"n": 0}]}, False),
        ({"measurements": [M | {"unit": ""}]}, False),
        ({"measurements": [M | {"interval": [1]}]}, False),
        ({"measurements": [M | {"interval": [2, 1]}]}, True),
        ({"measurements": [M, M]}, True),
        ({"measurements": [M | {"value": "1"}]}, False),
    ],
)
def test_refused(changes, schema):
    data = edited(**changes)
    assert jsonschema.Draft202012Validator(load_schema("report")).is_valid(json.loads(data)) == schema
    with pytest.raises(InputError) as caught:
        report_from_bytes(data)
    assert caught.value.code == "report"
    assert caught.value.where.startswith("report")


def test_not_a_number_is_not_written(tmp_path):
    bad = dataclasses.replace(REPORT, measurements=(Measurement("a", math.nan, "ms", 1),))
    with pytest.raises(InputError):
        write_report(bad, tmp_path / "r.json")
    assert list(tmp_path.iterdir()) == []


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match="cannot read"):
        read_report(tmp_path / "none.json")

"""The report: what was measured of a bundle, beside it and never in it, so that measuring does not change it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgekit.spec import codec
from edgekit.spec.errors import InputError
from edgekit.spec.output import new_file

__all__ = ["FORMAT", "Measurement", "Report", "read_report", "report_bytes", "report_from_bytes", "write_report"]

FORMAT = 1
"""The format this code writes, and the only one it reads."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure.

    Attributes:
        name: what was measured, such as `latency_p50`.
        value: the figure.
        unit: its unit, such as `ms`, `MB`, `steps`, `pp`; `1` for a plain number.
        n: how many observations it stands for.
        interval: 95 % interval; None if there is none.
    """

    name: str
    value: float
    unit: str
    n: int
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """Measurements of one payload of one bundle on one device.

    Attributes:
        bundle_sha256: the bundle's digest.
        target: name of the target profile.
        engine: payload id that ran.
        device: the machine that really ran it.
        conditions: what a reader needs to repeat it: threads, versions, date, command.
        measurements: the figures; no name twice.
        format: of the report.
    """

    bundle_sha256: str
    target: str
    engine: str
    device: str
    conditions: Mapping[str, str]
    measurements: tuple[Measurement, ...]
    format: int = FORMAT


def report_bytes(report: Report) -> bytes:
    """The report as JSON in UTF-8, checked as a reader checks it.

    Raises:
        InputError: `report`; a reader would refuse it.
    """
    try:
        text = json.dumps(codec.to_json(report), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        data = text.encode("utf-8")
    except (TypeError, ValueError) as error:
        raise _refuse(f"no JSON: {error}", "report") from error
    report_from_bytes(data)
    return data


def report_from_bytes(data: bytes) -> Report:
    """JSON -> report; unknown fields are ignored.

    Raises:
        InputError: `report`; not JSON, another format, or a field that breaks report.schema.json.
    """
    values = codec.parse_json(data, where="report", fail=_refuse)
    if isinstance(values, dict) and values.get("format", FORMAT) != FORMAT:
        raise _refuse(f"unknown report format {values['format']!r}", "report.format")
    report = codec.from_json(Report, values, where="report", fail=_refuse)
    if not re.fullmatch(r"[0-9a-f]{64}", report.bundle_sha256):
        raise _refuse("no SHA-256", "report.bundle_sha256")
    for field in ("target", "engine", "device"):
        if not getattr(report, field):
            raise _refuse("empty", f"report.{field}")
    for i, measurement in enumerate(report.measurements):
        _check(measurement, where=f"report.measurements[{i}]")
    names = [m.name for m in report.measurements]
    if len(set(names)) != len(names):
        raise _refuse("a name occurs twice", "report.measurements")
    return report


def read_report(path: Path) -> Report:
    """The report in the file `path`.

    Raises:
        InputError: `report`; it cannot be read or must be refused.
    """
    try:
        return report_from_bytes(path.read_bytes())
    except OSError as error:
        raise _refuse(f"cannot read: {error.strerror}", str(path)) from error
    except InputError as error:
        raise InputError(error.what, where=f"{path}, {error.where}", fix=error.fix, code=error.code) from error


def write_report(report: Report, path: Path) -> None:
    """Write the report to `path`, whole or not at all.

    Raises:
        InputError: a reader would refuse it, or `path` is in the way.
        SetupError: no space or permission.
    """
    data = report_bytes(report)
    with new_file(path) as temporary:
        temporary.write_bytes(data)


def _check(measurement: Measurement, *, where: str) -> None:
    for field in ("name", "unit"):
        if not getattr(measurement, field):
            raise _refuse("empty", f"{where}.{field}")
    if measurement.n < 1:
        raise _refuse(f"{measurement.n} observations", f"{where}.n")
    if measurement.interval and measurement.interval[0] > measurement.interval[1]:
        raise _refuse("its ends are swapped", f"{where}.interval")


def _refuse(what: str, where: str) -> InputError:
    return InputError(what, where=where, fix="measure again: edgekit bench, or the build that wrote it", code="report")

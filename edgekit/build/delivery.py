"""From the store to the user: the table of payloads, and the bundle where it was asked for."""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from edgekit.build.operators import FLOAT_TYPES
from edgekit.build.request import PayloadRow
from edgekit.build.stages.judge import REPORT
from edgekit.spec.bundle import open_bundle, pack_zip
from edgekit.spec.errors import InputError, SetupError
from edgekit.spec.manifest import OperatorCount, Payload
from edgekit.spec.names import MANIFEST
from edgekit.spec.output import new_directory

__all__ = ["deliver", "rows_of"]


def deliver(bundle: Path, out: Path, *, as_zip: bool) -> str:
    """Copy a bundle out of the store, whole or not at all -> its digest.

    Raises:
        InputError: something else is in the way, no space or no permission.
    """
    try:
        if as_zip:
            pack_zip(bundle, out)
        else:
            with new_directory(out, replaceable=lambda path: (path / MANIFEST).is_file()) as temporary:
                _copy(bundle, temporary)
    except SetupError as error:  # the place was the user's choice
        raise InputError(error.what, where=error.where, fix=error.fix, code=error.code) from error
    with open_bundle(out) as reader:
        return reader.digest


def _copy(folder: Path, to: Path) -> None:
    """As `shutil.copytree`, but it stops at the first error, and raises it as it is: one error, with its number."""
    for path in sorted(folder.rglob("*")):
        place = to / path.relative_to(folder)
        if path.is_dir():
            place.mkdir()
        else:
            shutil.copyfile(path, place)


def rows_of(bundle: Path, report: Path) -> tuple[tuple[PayloadRow, ...], tuple[str, ...]]:
    """(a row for each payload, remarks on what ran where)."""
    judged = json.loads((report / REPORT).read_text(encoding="utf-8"))
    verified = {result["payload"]: result for result in judged["verify"]["engines"].values()}
    with open_bundle(bundle) as reader:
        payloads = reader.manifest.payloads
    rows = tuple(_row(p, bundle, verified.get(p.id, {}), judged["latency_ms"].get(p.id)) for p in payloads)
    return rows, tuple(note for p in payloads for note in _remarks(p))


def _row(payload: Payload, bundle: Path, verified: dict[str, Any], latency_ms: float | None) -> PayloadRow:
    files = {entry.file for entry in payload.entries}
    return PayloadRow(
        engine=payload.engine,
        precision=payload.precision,
        file=payload.entries[0].file,
        size_bytes=sum((bundle / file).stat().st_size for file in files),
        agreement_top1=verified.get("agreement_float"),
        drop_pp=verified.get("drop_pp"),
        latency_ms_here=latency_ms,
        delegate=verified.get("delegate") or payload.placement.delegate,
        placement=_placement(payload),
        top1=verified.get("top1"),
        interval_pp=None if verified.get("interval_pp") is None else tuple(verified["interval_pp"]),
        n=verified.get("n", 0),
    )


def _placement(payload: Payload) -> str:
    by_type: dict[str, int] = {}
    for operator in payload.placement.operators:
        by_type[operator.dtype or "portable"] = by_type.get(operator.dtype or "portable", 0) + operator.count
    listed = ", ".join(f"{count} {dtype}" for dtype, count in sorted(by_type.items(), key=lambda item: -item[1]))
    calls = payload.placement.delegate_calls
    return listed if calls is None else f"{listed} in {calls} call{'' if calls == 1 else 's'}"


def _remarks(payload: Payload) -> list[str]:
    """What a user should know of where operators run: outside of the delegate, or in float inside an INT8 payload."""
    remarks = []
    calls = payload.placement.delegate_calls
    left = _counted(o for o in payload.placement.operators if not o.delegate)
    if calls is not None and left:
        remarks.append(f"{payload.id}: {calls} delegate call{'' if calls == 1 else 's'}, outside of it run {left}")
    loose = _counted(o for o in payload.placement.operators if o.dtype in FLOAT_TYPES)
    # Networks with attention hold floats between their layers by design, as their outputs show: the weights are the integers.
    if payload.precision == "int8" and loose and payload.entries[0].outputs[0].dtype not in FLOAT_TYPES:
        remarks.append(f"{payload.id}: these operators have no integer kernel and run in float: {loose}")
    return remarks


def _counted(operators: Iterable[OperatorCount]) -> str:
    return ", ".join(f"{o.count} {o.type}" for o in operators)

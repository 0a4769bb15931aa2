"""`edgekit inspect`: what a bundle holds and what runs where."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgekit.cli.ladder import draw
from edgekit.cli.options import BUNDLE
from edgekit.cli.options import command as declare
from edgekit.cli.screen import Screen
from edgekit.spec.codec import to_json
from edgekit.spec.rungs import FLOORS

if TYPE_CHECKING:
    from edgekit.build.ladder.findings import Drawn
    from edgekit.spec.bundle import BundleReader
    from edgekit.spec.manifest import Payload, Placement

__all__ = ["command"]

_FROM_MANIFEST = "the manifest"
_FROM_PAYLOAD = "the payload"


@declare
@click.argument("bundle", type=BUNDLE)
@click.option("--sensitivity", is_flag=True, help="Show what each layer costs when it alone is quantized, as the build measured.")
def command(screen: Screen, *, bundle: Path, sensitivity: bool) -> None:
    """Show the payloads of BUNDLE: operators by type and dtype, delegates, sizes, rungs, provenance."""
    from edgekit.spec.bundle import open_bundle

    if sensitivity:
        from edgekit.cli.sensitivity import show

        show(screen, bundle)
        return
    with open_bundle(bundle) as reader:
        with screen.working():
            found = [_examine(reader, payload) for payload in reader.manifest.payloads]
        document = _document(reader, found)
    ladder = _drawn(bundle, document)
    document["ladder"] = None if ladder is None else {floor: to_json(drawn) for floor, drawn in ladder.items()}
    if screen.as_json:
        screen.document(document)
    else:
        _print(screen, document)
        draw(screen, document, None if ladder is None else ladder["balanced"])


def _drawn(bundle: Path, document: dict[str, Any]) -> "dict[str, Drawn] | None":
    """What the build of a ladder measured, by floor, from the report beside the bundle."""
    if len(document["rungs"]) == 1 or importlib.util.find_spec("edgekit.build") is None:
        return None
    from edgekit.build.findings import findings_folder
    from edgekit.build.ladder.findings import LADDER, read_drawn

    path = findings_folder(bundle) / f"{LADDER}.report.json"
    names = tuple(rung["name"] for rung in document["rungs"])
    found = {floor: read_drawn(path, digest=document["digest"], rungs=names, floor=floor) for floor in FLOORS}
    return {floor: drawn for floor, drawn in found.items() if drawn is not None} or None


def _examine(reader: "BundleReader", payload: "Payload") -> "tuple[Payload, Placement, str]":
    """A payload, where its operators run, and who says so."""
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("edgekit.build.operators") is None:
        return payload, payload.placement, _FROM_MANIFEST
    from edgekit.build import operators

    try:
        if len(reader.manifest.rungs) == 1:
            return payload, operators.read(payload.engine, reader.file(payload.entries[0].file)), _FROM_PAYLOAD
        # Of a text network the longest bucket: each of them holds the same operators.
        of_rungs = {entry.rung: entry for entry in payload.entries}.values()
        methods = {file: operators.read_methods(payload.engine, reader.file(file)) for file in {e.file for e in of_rungs}}
        return payload, operators.joined(methods[e.file][e.method] for e in of_rungs), _FROM_PAYLOAD
    except ImportError:
        return payload, payload.placement, _FROM_MANIFEST


def _document(reader: "BundleReader", found: "list[tuple[Payload, Placement, str]]") -> dict[str, Any]:
    manifest = reader.manifest
    sizes = {file.path: file.size_bytes for file in manifest.files}
    return {
        "bundle": str(reader.path),
        "digest": reader.digest,
        "size_bytes": sum(sizes.values()),
        "model": to_json(manifest.model),
        "target": to_json(manifest.target),
        "preprocess": to_json(manifest.preprocess),
        **({} if manifest.text is None else {"text": to_json(manifest.text)}),
        "rungs": to_json(manifest.rungs),
        "payloads": [
            {
                "id": payload.id,
                "engine": payload.engine,
                "precision": payload.precision,
                "files": list(dict.fromkeys(entry.file for entry in payload.entries)),
                "size_bytes": sum(sizes[file] for file in {entry.file for entry in payload.entries}),
                "delegate": placement.delegate,
                "delegate_calls": placement.delegate_calls,
                "operators": to_json(placement.operators),
                "operators_from": source,
                **({} if manifest.text is None else {"tokens": [entry.inputs[0].shape[1] for entry in payload.entries]}),
            }
            for payload, placement, source in found
        ],
        "goldens": sum(golden.shape[0] for golden in manifest.golden_inputs),
        "provenance": dict(manifest.provenance),
        "files": to_json(manifest.files),
    }


def _print(screen: Screen, document: dict[str, Any]) -> None:
    from edgekit.cli.figures import UNKNOWN, size

    model, target = document["model"], document["target"]
    screen.line(f"{model['name']} ({model['task']}, {model['classes']} classes) for {target['name']}")
    screen.line(f"digest {document['digest']}, {size(document['size_bytes'])} in {len(document['files'])} files")
    screen.line(f"weights {model['weights'] or 'random'}, license {model['license'] or 'not stated'}")
    screen.table(
        ("payload", "size", "delegate", "calls", "operators", "float operators", "as read from"),
        [
            (
                payload["id"],
                size(payload["size_bytes"]),
                payload["delegate"] or UNKNOWN,
                UNKNOWN if payload["delegate_calls"] is None else str(payload["delegate_calls"]),
                str(sum(operator["count"] for operator in payload["operators"])),
                str(sum(operator["count"] for operator in payload["operators"] if operator["dtype"].startswith("float"))),
                payload["operators_from"],
            )
            for payload in document["payloads"]
        ],
        right=("size", "calls", "operators", "float operators"),
    )
    screen.table(("payload", "operator", "dtype", "count", "run by"), list(_operator_rows(document)), right=("count",))
    if "text" in document:
        _print_lines(screen, document)
        return
    screen.table(
        ("rung", "input", "resized to", "continues", "enough from"),
        [
            (
                rung["name"],
                f"{rung['resolution_px']} px",
                f"{rung['resize_px']} px",
                str(rung["continues"]),
                f"{rung['min_margin']:g}",
            )
            for rung in document["rungs"]
        ],
    )
    _print_lines(screen, document)


def _print_lines(screen: Screen, document: dict[str, Any]) -> None:
    if "text" in document:
        for payload in document["payloads"]:
            screen.line(f"{payload['id']} reads texts of {', '.join(map(str, payload['tokens']))} tokens; longer ones are cut")
    for name, value in sorted(document["provenance"].items()):
        screen.line(f"{name}: {value}")
    if any(payload["operators_from"] == _FROM_MANIFEST for payload in document["payloads"]):
        screen.line("operators as the builder recorded them; pip install 'edgekit[build]' to read them back from the payloads")


def _operator_rows(document: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for payload in document["payloads"]:
        for operator in sorted(payload["operators"], key=lambda operator: -operator["count"]):
            runner = operator["delegate"] or payload["engine"]
            yield payload["id"], operator["type"], operator["dtype"], str(operator["count"]), runner

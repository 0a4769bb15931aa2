"""`edgekit targets`: the devices."""

from typing import Any

import click

from edgekit.cli.options import command as declare
from edgekit.cli.screen import Screen
from edgekit.spec.target import Cluster, TargetProfile

__all__ = ["command"]

_FLAGS = ("dotprod", "fp16", "i8mm", "bf16", "sve2")


@declare
@click.argument("name", required=False)
def command(screen: Screen, *, name: str | None) -> None:
    """List the devices, or show the one called NAME (a name, an alias or a .yaml file)."""
    from edgekit import catalog

    if name is None:
        _list(screen, [catalog.find_target(each) for each in catalog.target_names()])
    else:
        _show(screen, catalog.find_target(name))


def _list(screen: Screen, targets: list[TargetProfile]) -> None:
    if screen.as_json:
        screen.document({"targets": [_document(target) for target in targets]})
        return
    rows = [
        (
            target.name,
            ", ".join(target.aliases),
            target.kind,
            " + ".join(f"{cluster.count} {cluster.core.removeprefix('Cortex-')}" for cluster in target.cpu),
            _isa(target.cpu),
            ", ".join(each.engine for each in target.engines),
        )
        for target in targets
    ]
    screen.table(("target", "alias", "kind", "cores", "all cores have", "engines"), rows)


def _show(screen: Screen, target: TargetProfile) -> None:
    if screen.as_json:
        screen.document({"targets": [_document(target)]})
        return
    api = target.android_api
    screen.line(f"{target.name}: {target.soc or 'this machine'} ({target.kind})")
    screen.line(f"memory: {f'{target.memory_mb} MB' if target.memory_mb else 'unknown'}")
    if target.kind == "phone":
        known = f"{api[0]} at launch, {api[1] or 'unknown'} at last" if api else "unknown"
        screen.line(f"Android API: {known}")
    screen.line(
        f"precision: {target.default_precision}; ONNX activations: {target.onnx_activation_dtype}; threads: {target.threads}"
    )
    screen.line()
    screen.table(
        ("cores", "count", "GHz", "ISA", "has"),
        [(c.core, str(c.count), f"{c.max_ghz:g}" if c.max_ghz else "?", c.isa.arch, _isa((c,))) for c in target.cpu],
        right=("count", "GHz"),
    )
    screen.table(
        ("engine", "delegate", "precisions", "why"),
        [(e.engine, e.delegate, ", ".join(e.precision_order), e.reason) for e in target.engines],
    )
    for note in target.notes:
        screen.line(f"note: {note}")
    for path, source in sorted(target.sources.items()):
        screen.line(f"source of {path}: {source}")


def _isa(clusters: tuple[Cluster, ...]) -> str:
    """What all cores can do: a program may run on any of them."""
    shared = [flag for flag in _FLAGS if clusters and all(getattr(cluster.isa, flag) for cluster in clusters)]
    return ", ".join(shared) or "-"


def _document(target: TargetProfile) -> dict[str, Any]:
    from edgekit.spec.codec import to_json

    document: dict[str, Any] = to_json(target)
    return document

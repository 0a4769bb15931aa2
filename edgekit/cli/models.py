"""`edgekit models`: the networks."""

from typing import Any

import click

from edgekit.cli.options import command as declare
from edgekit.cli.screen import Screen
from edgekit.spec.model import ModelSpec

__all__ = ["command"]


@declare
@click.argument("name", required=False)
def command(screen: Screen, *, name: str | None) -> None:
    """List the networks, or show the one called NAME (a name or path/file.py:FUNCTION)."""
    from edgekit import catalog
    from edgekit.spec.errors import InputError

    if name is None:
        _list(screen, [spec for spec in (catalog.find_model(each).spec for each in catalog.model_names()) if spec])
        return
    spec = catalog.find_model(name).spec
    if spec is None:
        raise InputError(f"{name} is known to timm only", where="model name", fix=f"edgekit build --model {name}", code="timm")
    _show(screen, spec)


def _list(screen: Screen, specs: list[ModelSpec]) -> None:
    if screen.as_json:
        screen.document({"models": [_document(spec) for spec in specs]})
        return
    rows = [(spec.name, _input(spec), str(spec.classes or "-"), _weights(spec), spec.description) for spec in specs]
    screen.table(("model", "input", "classes", "weights", "what it is"), rows, right=("input", "classes"))
    screen.line("your own: --model path/to/file.py:FUNCTION, --model timm:NAME, --model hf:DIR, --weights FILE")


def _show(screen: Screen, spec: ModelSpec) -> None:
    if screen.as_json:
        screen.document({"models": [_document(spec)]})
        return
    screen.line(f"{spec.name}: {spec.description}")
    for name, value in (
        ("file", str(spec.family)),
        ("task", spec.task),
        ("classes", str(spec.classes or "as many as the network gives")),
        *(_text_fields(spec) if spec.reads_text else _image_fields(spec)),
        ("weights", _weights(spec)),
        ("license", spec.license or "not stated"),
        ("teacher", spec.teacher or "none"),
        ("exits after", ", ".join(spec.exits_after) or "none"),
    ):
        screen.line(f"  {name:<12} {value}")


def _input(spec: ModelSpec) -> str:
    return f"{spec.tokens[-1]} tokens" if spec.reads_text else f"{spec.resolution_px} px"


def _image_fields(spec: ModelSpec) -> tuple[tuple[str, str], ...]:
    return (
        ("input", f"{spec.resolution_px} px; also {', '.join(map(str, spec.resolutions_px)) or 'none tested'}"),
        ("crop", f"{spec.crop_fraction:g} of the shorter side, {spec.filter}"),
        ("mean", ", ".join(f"{value:g}" for value in spec.mean)),
        ("std", ", ".join(f"{value:g}" for value in spec.std)),
    )


def _text_fields(spec: ModelSpec) -> tuple[tuple[str, str], ...]:
    return (("input", f"text of up to {spec.tokens[-1]} tokens, in steps of {', '.join(map(str, spec.tokens))}"),)


def _weights(spec: ModelSpec) -> str:
    if spec.weights is None:
        return f"random; give --weights {'DIR' if spec.reads_text else 'FILE'}"
    return f"{spec.weights.package}{'' if _is_installed(spec) else ' (not installed)'}"


def _is_installed(spec: ModelSpec) -> bool:
    import importlib.util

    return spec.weights is not None and importlib.util.find_spec(spec.weights.module) is not None


def _document(spec: ModelSpec) -> dict[str, Any]:
    from edgekit.spec.codec import to_json

    document: dict[str, Any] = {**to_json(spec), "family": str(spec.family), "weights_installed": _is_installed(spec)}
    return document

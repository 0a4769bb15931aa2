"""`edgekit run`: a bundle's answer to one image."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgekit.cli.options import BUNDLE, POSITIVE, engine_names, precision_names
from edgekit.cli.options import command as declare
from edgekit.cli.screen import Screen
from edgekit.spec.errors import InputError, UnknownName

if TYPE_CHECKING:
    from edgekit.runtime import Model, Result

__all__ = ["command"]


@declare
@click.argument("bundle", type=BUNDLE)
@click.argument("image", type=click.Path(path_type=Path))
@click.option(
    "--engine", default="auto", show_default=True, help="executorch, litert or onnx; auto takes the fastest that proves itself."
)
@click.option("--precision", help="int8, fp16 or fp32. [any]")
@click.option("--threads", type=POSITIVE, help="Threads of the engine. [cores, at most 4]")
@click.option("--top", type=POSITIVE, default=5, show_default=True, help="How many labels to show.")
def command(
    screen: Screen, *, bundle: Path, image: Path, engine: str, precision: str | None, threads: int | None, top: int
) -> None:
    """Run BUNDLE on IMAGE."""
    _check(image, engine, precision=precision)
    with screen.working():
        from edgekit import runtime

        with runtime.open(bundle, engine=engine, precision=precision, threads=threads) as model:
            # The first call also imports the image decoder and grows buffers: what follows is what the next photos will take.
            model.run(image, top=top)
            result = model.run(image, top=top)
    if screen.as_json:
        screen.document(_document(model, result))
    else:
        _print(screen, model, result)


def _check(image: Path, engine: str, *, precision: str | None) -> None:
    known = ("auto", *engine_names())
    if engine not in known:
        raise UnknownName("engine", engine, known, listing="edgekit doctor")
    if precision is not None and precision not in precision_names():
        raise UnknownName("precision", precision, precision_names())
    if not image.is_file():
        raise InputError(f"there is no image {image}", where="IMAGE", fix="name a photo", code="image-missing")


def _print(screen: Screen, model: "Model", result: "Result") -> None:
    rows = [(label.name, f"{100 * label.score:.1f} %") for label in result.labels]
    screen.table(("label", "score"), rows, right=("score",))
    latency = result.latency_ms
    threads = "1 thread" if model.threads == 1 else f"{model.threads} threads"
    screen.line(f"{result.engine} {result.precision} on {result.delegate}, rung {result.rung}, {threads}")
    screen.line(f"pre {latency.pre:.2f} ms, inference {latency.inference:.2f} ms, post {latency.post:.2f} ms")
    if result.fallback:
        screen.line(f"not delegated: {', '.join(result.fallback)}")
    for refusal in model.refused:
        screen.line(f"not taken: {refusal.engine} {refusal.precision}: {refusal.why}")


def _document(model: "Model", result: "Result") -> dict[str, Any]:
    from edgekit.spec.codec import to_json

    document: dict[str, Any] = to_json(result)
    return {**document, "threads": model.threads, "refused": to_json(model.refused), "bundle_digest": model.digest}

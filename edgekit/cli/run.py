"""`edgekit run`: a bundle's answer to one image, or to texts."""

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

_EMBEDDING = "sentence-embedding"
_TEXT_PRECISIONS = ("int8-weights", "int8-static")


@declare
@click.argument("bundle", type=BUNDLE)
@click.argument("image", type=click.Path(path_type=Path), required=False)
@click.option("--text", help="A text instead of an image; @FILE or - (standard input) for one text a line.")
@click.option(
    "--engine", default="auto", show_default=True, help="executorch, litert or onnx; auto takes the fastest that proves itself."
)
@click.option("--precision", help="int8, int8-weights, int8-static, fp16 or fp32. [any]")
@click.option("--threads", type=POSITIVE, help="Threads of the engine. [cores, at most 4]")
@click.option("--top", type=POSITIVE, default=5, show_default=True, help="How many labels to show.")
def command(
    screen: Screen,
    *,
    bundle: Path,
    image: Path | None,
    text: str | None,
    engine: str,
    precision: str | None,
    threads: int | None,
    top: int,
) -> None:
    """Run BUNDLE on IMAGE, or on a text."""
    _check_names(engine, precision=precision)
    inputs = _inputs(bundle, image, text)
    with screen.working():
        from edgekit import runtime

        with runtime.open(bundle, engine=engine, precision=precision, threads=threads) as model:
            if model.manifest.model.task == _EMBEDDING:
                document = {"embeddings": [model.embed(one).tolist() for one in inputs], "bundle_digest": model.digest}
                screen.document(document) if screen.as_json else screen.line(str(document["embeddings"]))
                return
            # The first call also imports the image decoder and grows buffers: what follows is what the next inputs will take.
            model.run(inputs[0], top=top)
            results = [model.run(one, top=top) for one in inputs]
    if screen.as_json:
        documents = [_document(model, result) for result in results]
        screen.document(documents[0] if len(documents) == 1 else {"results": documents})
        return
    for result in results:
        _print(screen, model, result)


def _inputs(bundle: Path, image: Path | None, text: str | None) -> "list[Path] | list[str] | list[bytes]":
    """What to run on, checked against what the bundle takes."""
    from edgekit.spec.bundle import open_bundle

    with open_bundle(bundle, verify_hashes=False) as reader:
        reads_text = reader.manifest.text is not None
    if reads_text and (text is None or image is not None):
        raise InputError("the bundle's network reads text", where="IMAGE", fix='give --text "..." and no image', code="run-input")
    if not reads_text and (text is not None or image is None):
        raise InputError("the bundle's network sees images", where="--text", fix="name an image and no --text", code="run-input")
    if text is None:
        _check_image(image or Path())
        return [image or Path()]
    if text == "-":
        return _lines(click.get_binary_stream("stdin").read(), where="standard input")
    if text.startswith("@"):
        path = Path(text[1:])
        try:
            return _lines(path.read_bytes(), where=str(path))
        except OSError as error:
            raise InputError(
                f"cannot read {path}: {error.strerror}", where="--text", fix="check the path", code="input-missing"
            ) from error
    return [text]


def _lines(data: bytes, *, where: str) -> list[bytes]:
    lines = [line.removesuffix(b"\r") for line in data.removesuffix(b"\n").split(b"\n")]
    if not data:
        raise InputError("there is no text", where=where, fix="give one text a line", code="text-type")
    return lines


def _check_names(engine: str, *, precision: str | None) -> None:
    known = ("auto", *engine_names())
    if engine not in known:
        raise UnknownName("engine", engine, known, listing="edgekit doctor")
    precisions = tuple(dict.fromkeys((*precision_names(), *_TEXT_PRECISIONS)))
    if precision is not None and precision not in precisions:
        raise UnknownName("precision", precision, precisions)


def _check_image(image: Path) -> None:
    if not image.is_file():
        raise InputError(f"there is no image {image}", where="IMAGE", fix="name a photo", code="image-missing")


def _print(screen: Screen, model: "Model", result: "Result") -> None:
    rows = [(label.name, f"{100 * label.score:.1f} %") for label in result.labels]
    screen.table(("label", "score"), rows, right=("score",))
    latency = result.latency_ms
    threads = "1 thread" if model.threads == 1 else f"{model.threads} threads"
    screen.line(f"{result.engine} {result.precision} on {result.delegate}, rung {result.rung}, {threads}")
    screen.line(f"pre {latency.pre:.2f} ms, inference {latency.inference:.2f} ms, post {latency.post:.2f} ms")
    if result.truncated:
        screen.line(f"cut: {result.tokens} tokens, the bundle takes {result.bucket_tokens}")
    if result.fallback:
        screen.line(f"not delegated: {', '.join(result.fallback)}")
    for refusal in model.refused:
        screen.line(f"not taken: {refusal.engine} {refusal.precision}: {refusal.why}")


def _document(model: "Model", result: "Result") -> dict[str, Any]:
    from edgekit.spec.codec import to_json

    document: dict[str, Any] = to_json(result)
    return {**document, "threads": model.threads, "refused": to_json(model.refused), "bundle_digest": model.digest}

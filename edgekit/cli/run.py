"""`edgekit run`: a bundle's answer to one image, or to texts."""

import codecs
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgekit.cli.options import BUNDLE, POSITIVE, Milliseconds, engine_names, precision_names
from edgekit.cli.options import command as declare
from edgekit.cli.screen import Screen
from edgekit.spec.errors import InputError, UnknownName
from edgekit.spec.rungs import FLOORS

if TYPE_CHECKING:
    from edgekit.runtime import Model, Result

__all__ = ["command"]

_EMBEDDING = "sentence-embedding"
_SHOWN = 50
"""Characters of a text in a table."""
_STOPPED = {
    "margin": "stopped: sure enough",
    "last": "stopped: the last rung",
    "ceiling": "stopped: no time for the next rung",
}
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
@click.option(
    "--floor", type=click.Choice(FLOORS), default="balanced", show_default=True, help="How sure a rung must be to stop."
)
@click.option("--ceiling-ms", type=Milliseconds(), help="Begin no rung that would probably end later. [none]")
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
    floor: str,
    ceiling_ms: float | None,
    top: int,
) -> None:
    """Run BUNDLE on IMAGE, or on a text."""
    _check_names(engine, precision=precision)
    inputs = _inputs(bundle, image, text)
    with screen.working():
        from edgekit import runtime

        with runtime.open(bundle, engine=engine, precision=precision, threads=threads) as model:
            embeds = model.manifest.model.task == _EMBEDDING
            embeddings = [model.embed(one).tolist() for one in inputs] if embeds else []
            results = [] if embeds else list(_answers(model, inputs, top=top, floor=floor, ceiling_ms=ceiling_ms))
    if embeds:
        _show_embeddings(screen, model, embeddings)
        return
    several = text is not None and _is_list(text)
    if screen.as_json:
        documents = [_document(model, result) for result in results]
        screen.document({"results": documents} if several else documents[0])
    elif several:
        _print_list(screen, model, list(zip(inputs, results, strict=True)))
    else:
        _print(screen, model, results[0])


def _answers(model: Any, inputs: "Sequence[Path | str]", **asked: Any) -> "Iterator[Result]":
    """One answer for each input.

    The first call (of a text network: of each length) also loads the network and grows buffers, so it is made twice: what is
    told is what the next inputs will take. A ceiling needs to know what all rungs take.
    """
    if asked["ceiling_ms"] is not None:
        model.warm_up()
    warm: set[int | None] = set()
    for one in inputs:
        result = model.run(one, **asked)
        if result.bucket_tokens not in warm:
            warm.add(result.bucket_tokens)
            result = model.run(one, **asked)
        yield result


def _is_list(text: str) -> bool:
    return text == "-" or text.startswith("@")


def _inputs(bundle: Path, image: Path | None, text: str | None) -> "Sequence[Path | str]":
    """What to run on, checked against what the bundle takes."""
    from edgekit.spec.bundle import open_bundle

    if text is None and image is not None:
        _check_image(image)

    with open_bundle(bundle, verify_hashes=False) as reader:
        reads_text = reader.manifest.text is not None
    if reads_text and (text is None or image is not None):
        raise InputError("the bundle's network reads text", where="IMAGE", fix='give --text "..." and no image', code="run-input")
    if not reads_text and (text is not None or image is None):
        raise InputError("the bundle's network sees images", where="--text", fix="name an image and no --text", code="run-input")
    if text is None:
        return [image or Path()]
    if text == "-":
        return _lines(sys.stdin.buffer.read() if sys.stdin else b"", where="standard input")
    if text.startswith("@"):
        path = Path(text[1:])
        try:
            return _lines(path.read_bytes(), where=str(path))
        except OSError as error:
            raise InputError(
                f"cannot read {path}: {error.strerror}", where="--text", fix="check the path", code="input-missing"
            ) from error
    return [text]


def _lines(data: bytes, *, where: str) -> list[str]:
    """One text a line; an empty line is an empty text."""
    if not data:
        raise InputError("there is no text", where=where, fix="give one text a line", code="text-type")
    lines = data.removeprefix(codecs.BOM_UTF8).removesuffix(b"\n").split(b"\n")
    return [_decoded(line.removesuffix(b"\r"), where=f"{where}:{number}") for number, line in enumerate(lines, 1)]


def _decoded(line: bytes, *, where: str) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"the text is not UTF-8: byte {error.start}", where=where, fix="save it as UTF-8", code="text-utf8"
        ) from error


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


def _show_embeddings(screen: Screen, model: Any, embeddings: list[list[float]]) -> None:
    if screen.as_json:
        screen.document({"embeddings": embeddings, "bundle_digest": model.digest})
        return
    for row in embeddings:
        screen.line(" ".join(f"{value:.6g}" for value in row))


def _print_list(screen: Screen, model: "Model", answers: "Sequence[tuple[Path | str, Result]]") -> None:
    """The labels of each text beside its beginning."""
    rows = [
        (
            "" if index else _beginning(str(text)),
            label.name,
            f"{100 * label.score:.1f} %",
            "" if index else f"{result.tokens}{' (cut)' if result.truncated else ''}",
            "" if index else result.rung,
        )
        for text, result in answers
        for index, label in enumerate(result.labels)
    ]
    screen.table(("text", "label", "score", "tokens", "rung"), rows, right=("score", "tokens"))
    _print_engine(screen, model, answers[0][1])
    _print_left(screen, model, answers[0][1])


def _beginning(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _print_engine(screen: Screen, model: "Model", result: "Result") -> None:
    threads = "1 thread" if model.threads == 1 else f"{model.threads} threads"
    screen.line(f"{result.engine} {result.precision} on {result.delegate}, rung {result.rung}, {threads}")


def _print(screen: Screen, model: "Model", result: "Result") -> None:
    rows = [(label.name, f"{100 * label.score:.1f} %") for label in result.labels]
    screen.table(("label", "score"), rows, right=("score",))
    latency = result.latency_ms
    _print_engine(screen, model, result)
    screen.line(f"pre {latency.pre:.2f} ms, inference {latency.inference:.2f} ms, post {latency.post:.2f} ms")
    _print_rungs(screen, model, result)
    if result.truncated:
        screen.line(f"cut: {result.tokens} tokens, the bundle takes {result.bucket_tokens}")
    _print_left(screen, model, result)


def _print_rungs(screen: Screen, model: "Model", result: "Result") -> None:
    """How the answer came about, where the bundle holds a ladder."""
    if len(model.manifest.rungs) == 1:
        return
    for run in result.rungs:
        screen.line(f"rung {run.name}: margin {run.margin:g}, {run.latency_ms:.2f} ms")
    screen.line(_STOPPED[result.stopped_by])


def _print_left(screen: Screen, model: "Model", result: "Result") -> None:
    if result.fallback:
        screen.line(f"not delegated: {', '.join(result.fallback)}")
    for refusal in model.refused:
        screen.line(f"not taken: {refusal.engine} {refusal.precision}: {refusal.why}")


def _document(model: "Model", result: "Result") -> dict[str, Any]:
    from edgekit.spec.codec import to_json

    document: dict[str, Any] = to_json(result)
    return {**document, "threads": model.threads, "refused": to_json(model.refused), "bundle_digest": model.digest}

"""`edgekit verify`: prove a bundle on every engine that is installed here."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgekit.cli import checks
from edgekit.cli.options import BUNDLE, POSITIVE
from edgekit.cli.options import command as declare
from edgekit.cli.screen import Screen

if TYPE_CHECKING:
    from edgekit.bench import VerifyResult

__all__ = ["command"]

_NOT_OK = 3
_NO_FLOAT = "no float network to compare with: give --against a bundle with an fp32 payload"


@declare
@click.argument("bundle", type=BUNDLE)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Images to judge on: class folders, a labels.csv or an .npz; of a text network a CSV of text and label, or its folder.",
)
@click.option("--against", type=BUNDLE, help="A bundle with an fp32 payload of the same network, as the float reference.")
@click.option("--limit", type=POSITIVE, help="Judge on so many images or texts. [all]")
@click.option("--threads", type=POSITIVE, default=1, show_default=True)
def command(screen: Screen, *, bundle: Path, data: Path | None, against: Path | None, limit: int | None, threads: int) -> int:
    """Check every hash of BUNDLE and its golden outputs on every engine here; with --data also accuracy and agreement."""
    if data is not None:
        # What is not there is said before anything is opened.
        checks.data(data, text=data.suffix == ".csv" if not data.exists() else _reads_text(bundle))
    result, skipped = _verify(screen, bundle, data, against=against, limit=limit, threads=threads)
    if screen.as_json:
        screen.document(_document(result, skipped))
    else:
        _print(screen, result, skipped)
    return 0 if result.ok else _NOT_OK


def _verify(
    screen: Screen, bundle: Path, data: Path | None, *, against: Path | None, limit: int | None, threads: int
) -> "tuple[VerifyResult, list[str]]":
    from edgekit.bench import verify_bundle

    with screen.working():
        if data is None:
            return verify_bundle(bundle, threads=threads), []
        if _reads_text(bundle):
            return _verify_texts(bundle, data, against=against, limit=limit, threads=threads)
        from edgekit.build.data import held_out, open_data

        images = open_data(held_out(data), limit=limit)
        reference = None if against else _float_network(bundle)
        result = verify_bundle(bundle, data=images, float_bundle=against, float_logits=reference, threads=threads)
        if all(each.agreement_float is None for each in result.engines.values()):
            result = _noted(result, f"{_NO_FLOAT}, or pip install 'edgekit[build]'")
        return result, [f"{skipped.path}: {skipped.why}" for skipped in images.skipped]


def _verify_texts(
    bundle: Path, data: Path, *, against: Path | None, limit: int | None, threads: int
) -> "tuple[VerifyResult, list[str]]":
    from edgekit.bench import verify_bundle
    from edgekit.build.data import open_texts, text_split_files

    both = text_split_files(data)
    texts = open_texts(data if both is None else both[1])
    result = verify_bundle(bundle, data=texts, limit=limit, float_bundle=against, threads=threads)
    if all(each.agreement_float is None for each in result.engines.values()):
        result = _noted(result, _NO_FLOAT)
    return result, [f"{texts.skipped} rows without text"] if texts.skipped else []


def _noted(result: "VerifyResult", hint: str) -> "VerifyResult":
    return dataclasses.replace(result, note="; ".join(filter(None, (result.note, hint))))


def _reads_text(bundle: Path) -> bool:
    from edgekit.spec.bundle import open_bundle

    with open_bundle(bundle, verify_hashes=False) as reader:
        return reader.manifest.text is not None


def _float_network(bundle: Path) -> Any:
    """The float network of the bundle, where the builder is installed and has its weights; else None."""
    from edgekit.catalog import find_model
    from edgekit.spec.bundle import open_bundle
    from edgekit.spec.errors import InputError

    with open_bundle(bundle) as reader:
        manifest = reader.manifest
    try:
        source = find_model(manifest.provenance.get("model", ""))
        from edgekit.build.reference import rebuilt
    except (ImportError, InputError):
        return None
    return rebuilt(source, manifest)


def _print(screen: Screen, result: "VerifyResult", skipped: list[str]) -> None:
    from edgekit.cli.figures import UNKNOWN, percent, points

    rows = [
        (
            name,
            each.precision,
            each.delegate,
            "ok" if each.goldens else "FAIL",
            f"{each.golden_max_steps:g}",
            str(each.n or UNKNOWN),
            percent(each.top1),
            percent(each.top1_float),
            points(each.drop_pp),
            f"{points(each.interval_pp[0])} to {points(each.interval_pp[1])}" if each.interval_pp else UNKNOWN,
            percent(each.agreement_float),
        )
        for name, each in result.engines.items()
    ]
    columns = (
        "engine",
        "precision",
        "delegate",
        "goldens",
        "max steps",
        "images" if result.tokenizer is None else "texts",
        "top-1",
        "float",
        "drop, pp",
        "95 %",
        "agrees",
    )
    # Without images the columns about their answers would be empty.
    shown = len(columns) if any(each.n for each in result.engines.values()) else 5
    screen.table(columns[:shown], [row[:shown] for row in rows], right=columns[4:shown])
    if result.pairs:
        screen.table(
            ("a", "b", "same answer", "mean steps", "max steps", "equal outputs"),
            [
                (
                    pair.a,
                    pair.b,
                    percent(pair.agreement_top1),
                    f"{pair.mean_steps:.3f}",
                    f"{pair.max_steps:g}",
                    percent(pair.equal),
                )
                for pair in result.pairs
            ],
            right=("same answer", "mean steps", "max steps", "equal outputs"),
        )
    if result.tokenizer is not None:
        right, n = result.tokenizer.n - result.tokenizer.wrong, result.tokenizer.n
        told = "ok" if result.tokenizer.ok else "FAIL"
        screen.line(f"tokenizer: {told}, {right} of {n} example texts give the recorded ids")
    for missing in result.missing:
        screen.line(f"not checked: {missing.engine}: {missing.fix}")
    for line in (*([result.note] if result.note else ()), *(f"skipped {line}" for line in skipped)):
        screen.line(f"note: {line}")
    screen.line("verified" if result.ok else f"NOT verified: {_why_not(result)}")


def _why_not(result: "VerifyResult") -> str:
    reasons = [] if all(each.goldens for each in result.engines.values()) else ["an engine does not give the golden outputs"]
    if result.tokenizer is not None and not result.tokenizer.ok:
        reasons.append("the tokenizer does not give the recorded ids")
    return " and ".join(reasons)


def _document(result: "VerifyResult", skipped: list[str]) -> dict[str, Any]:
    from edgekit.spec.codec import to_json

    document: dict[str, Any] = {**to_json(result), "skipped": skipped}
    return document

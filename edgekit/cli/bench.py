"""`edgekit bench`: time and memory of a bundle on this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgekit.cli.options import BUNDLE, POSITIVE, NameList, engine_names, flat
from edgekit.cli.options import command as declare
from edgekit.cli.screen import Screen

if TYPE_CHECKING:
    from edgekit.bench import BenchResult

__all__ = ["command"]


@declare
@click.argument("bundle", type=BUNDLE)
@click.option("--against", type=BUNDLE, help="Another bundle (or the same one) to be timed in turn, engine by engine.")
@click.option("--engine", multiple=True, type=NameList("engine", engine_names), help="Only these. [all that are installed]")
@click.option("--threads", type=POSITIVE, default=1, show_default=True)
@click.option("--runs", type=POSITIVE, default=50, show_default=True, help="Timed runs of each payload, interleaved.")
def command(
    screen: Screen, *, bundle: Path, against: Path | None, engine: tuple[tuple[str, ...], ...], threads: int, runs: int
) -> None:
    """Measure the payloads of BUNDLE on this machine: inference alone, all payloads in turn."""
    from edgekit.bench import bench

    with screen.working():
        result = bench(bundle, against=against, engines=flat(engine) or None, threads=threads, runs=runs)
    if screen.as_json:
        screen.document(_document(result))
    else:
        _print(screen, result)


def _print(screen: Screen, result: "BenchResult") -> None:
    from edgekit.cli.figures import UNKNOWN, milliseconds

    rows = [
        (
            each.payload if each.tokens is None else f"{each.payload}, {each.tokens} tokens",
            each.delegate,
            str(each.threads),
            str(each.n),
            milliseconds(each.cpu_ms),
            milliseconds(each.wall_ms_p50),
            milliseconds(each.wall_ms_p99),
            f"{each.peak_rss_mb:.0f} MB",
            f"{each.ratio.cpu:.2f}x ({each.ratio.interval[0]:.2f} to {each.ratio.interval[1]:.2f})" if each.ratio else UNKNOWN,
            each.ratio.against if each.ratio else "",
        )
        for each in result.results
    ]
    columns = ("payload", "delegate", "threads", "runs", "CPU", "wall p50", "wall p99", "peak memory", "times faster", "than")
    screen.table(columns, rows, right=columns[2:9])
    for missing in result.missing:
        screen.line(f"not measured: {missing.engine}: {missing.fix}")
    screen.line("; ".join(f"{name} {value}" for name, value in result.conditions.items()))


def _document(result: "BenchResult") -> dict[str, Any]:
    from edgekit.spec.codec import to_json

    document: dict[str, Any] = to_json(result)
    return document

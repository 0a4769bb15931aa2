"""Progress of a build on stderr: a bar per stage on a terminal, a line per stage elsewhere, nothing beside JSON."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from edgekit.build.pipeline import Event
from edgekit.cli.screen import Screen

__all__ = ["progress"]


@contextmanager
def progress(screen: Screen) -> Iterator[Callable[[Event], None]]:
    """An observer for the pipeline that shows what it is told for as long as the context lasts."""
    if screen.as_json:
        yield lambda event: None
    elif sys.stderr.isatty():
        with _bars() as observe:
            yield observe
    else:
        yield _Lines()


class _Lines:
    """One line when a stage begins to wait, and one when it ends; a stage that several chains share is shown once."""

    def __init__(self) -> None:
        self._shown: set[tuple[str, bool]] = set()

    def __call__(self, event: Event) -> None:
        ended = event.kind in ("done", "cached", "failed")
        if not (ended or event.kind == "waiting") or (event.key, ended) in self._shown:
            return
        self._shown.add((event.key, ended))
        text = {"done": f"{event.seconds:.1f} s", "cached": "already there"}.get(event.kind, event.note)
        print(f"[{event.index + 1}/{event.count}] {event.stage}: {text}", file=sys.stderr, flush=True)


@contextmanager
def _bars() -> Iterator[Callable[[Event], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(finished_text="[green]✓"),
        TextColumn("{task.description:<12}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True), redirect_stdout=False, redirect_stderr=False) as bars:
        tasks = {}

        def observe(event: Event) -> None:
            if event.key not in tasks:
                tasks[event.key] = bars.add_task(event.stage, total=1.0, note="")
            ended = event.kind in ("done", "cached")
            note = "already there" if event.kind == "cached" else "" if ended else event.note
            if not (event.kind == "cached" and bars.tasks[tasks[event.key]].finished):
                bars.update(tasks[event.key], completed=1.0 if ended else event.fraction, note=note)

        yield observe

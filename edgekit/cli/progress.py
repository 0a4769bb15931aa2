"""Progress of a build on stderr: a bar per stage on a terminal, a line per stage elsewhere, nothing beside JSON."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from edgekit.build.pipeline import Event
from edgekit.cli.screen import Screen

__all__ = ["progress"]


@contextmanager
def progress(screen: Screen) -> Iterator[Callable[[Event], None]]:
    """An observer for the pipeline that shows what it is told for as long as the context lasts.

    The converters print to the same stream from C++, in the middle of the bars: unless `debug`, what they print is dropped,
    while the progress goes to a copy of the stream.
    """
    with contextlib.ExitStack() as stack:
        terminal = sys.stderr.isatty()
        stream = sys.stderr if screen.debug else _apart(stack)
        if screen.as_json:
            yield lambda event: None
        elif terminal:
            yield stack.enter_context(_bars(stream))
        else:
            yield _Lines(stream)


def _apart(stack: contextlib.ExitStack) -> TextIO:
    """A copy of standard error, while the original is taken; the original itself where it has no descriptor, as in tests."""
    from edgekit.runtime.engines.stderr import captured

    try:
        copy = os.dup(sys.stderr.fileno())
    except (OSError, ValueError):
        return sys.stderr
    stream = stack.enter_context(os.fdopen(copy, "w", buffering=1, encoding="utf-8"))
    stack.enter_context(captured())
    return stream


class _Lines:
    """One line when a stage begins to wait, and one when it ends; a stage that several chains share is shown once."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown: set[tuple[str, bool]] = set()

    def __call__(self, event: Event) -> None:
        if event.kind == "told":
            print(f"{event.stage}: {event.note}", file=self._stream, flush=True)
            return
        ended = event.kind in ("done", "cached", "failed")
        if not (ended or event.kind == "waiting") or (event.key, ended) in self._shown:
            return
        self._shown.add((event.key, ended))
        text = {"done": f"{event.seconds:.1f} s", "cached": "already there"}.get(event.kind, event.note)
        print(f"{event.stage}: {text}", file=self._stream, flush=True)


@contextmanager
def _bars(stream: TextIO) -> Iterator[Callable[[Event], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(finished_text="[green]✓"),
        TextColumn("{task.description:<22}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(file=stream), redirect_stdout=False, redirect_stderr=False) as bars:
        tasks = {}

        def observe(event: Event) -> None:
            if event.kind == "told":
                bars.console.print(f"{event.stage}: {event.note}", highlight=False)
                return
            if event.key not in tasks:
                tasks[event.key] = bars.add_task(event.stage, total=1.0, note="")
            ended = event.kind in ("done", "cached")
            note = "already there" if event.kind == "cached" else "" if ended else event.note
            if not (event.kind == "cached" and bars.tasks[tasks[event.key]].finished):
                bars.update(tasks[event.key], completed=1.0 if ended else event.fraction, note=note)

        yield observe

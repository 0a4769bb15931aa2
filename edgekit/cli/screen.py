"""Where a command's results go: tables for people or one JSON document, both on stdout; everything else is kept off it."""

import contextlib
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Screen"]

_PIPE_WIDTH = 200
_SHORT = 20


@dataclass(frozen=True, slots=True)
class Screen:
    """What the user asked to see; handed to every command.

    Attributes:
        as_json: one JSON document on stdout, nothing else, no progress.
        debug: tracebacks, and whatever libraries print.
    """

    as_json: bool
    debug: bool

    def document(self, value: Any) -> None:
        """Print the one JSON document of a command; a figure that is no number becomes null, which JSON can hold."""
        sys.stdout.write(json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n")
        sys.stdout.flush()

    def line(self, text: str = "") -> None:
        """Print one line for a person."""
        sys.stdout.write(text + "\n")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> None:
        """Print a table for a person; `right` names the columns of figures."""
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
        for index, column in enumerate(columns):
            # On a narrow terminal long texts are folded first, figures and names last.
            short = all(len(row[index]) <= _SHORT for row in rows)
            table.add_column(column, justify="right" if column in right else "left", overflow="fold", no_wrap=short)
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        width = None if sys.stdout.isatty() else _PIPE_WIDTH
        console = Console(file=sys.stdout, width=width, highlight=False)
        with console.capture() as captured:
            console.print(table)
        # Padding is noise in a pipe and in a copied text.
        lines = [line.rstrip() for line in captured.get().splitlines()]
        self.line("\n".join(line for line in lines if line) + "\n")

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """While libraries work: what they print to stdout goes to stderr, and their warnings are dropped unless `debug`."""
        import logging
        import warnings

        with _stdout_is_stderr(), warnings.catch_warnings():
            if not self.debug:
                warnings.simplefilter("ignore")
                logging.disable(logging.WARNING)
            try:
                yield
            finally:
                logging.disable(logging.NOTSET)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


@contextlib.contextmanager
def _stdout_is_stderr() -> Iterator[None]:
    """For Python and for C: libraries print from both, and one stray line would break the JSON document."""
    sys.stdout.flush()
    try:
        descriptor = sys.stdout.fileno()
        kept = os.dup(descriptor)
        os.dup2(sys.stderr.fileno(), descriptor)
    except (OSError, ValueError):  # a stream without a descriptor, as in tests
        descriptor = kept = -1
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        sys.stderr.flush()
        if kept >= 0:
            os.dup2(kept, descriptor)
            os.close(kept)

"""What the user sees of an error: what, where and fix, as three lines on stderr or as a JSON document on stdout."""

import errno
import os
import sys
import traceback
from pathlib import Path

import click

from edgekit.cli.screen import Screen
from edgekit.spec.errors import EdgekitError, InputError, SetupError

__all__ = ["INTERRUPTED", "exit_code"]

INTERRUPTED = 130

_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"
"""Our own code, wherever it is installed: a user's folder may be called edgekit too."""


def exit_code(error: BaseException, screen: Screen) -> int:
    """Show an error that ended a command -> the exit code for it."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if screen.debug and not isinstance(error, click.ClickException | click.Abort):
        traceback.print_exception(error)
    known = _as_known(error)
    if screen.as_json:
        screen.document({"error": known.as_dict()})
    else:
        _print(known)
    return INTERRUPTED if known.code == "interrupted" else known.exit_code


def _as_known(error: BaseException) -> EdgekitError:
    if isinstance(error, EdgekitError):
        return error
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return EdgekitError("interrupted", fix="run the same command again: finished stages are kept", code="interrupted")
    if isinstance(error, click.ClickException):
        return _usage(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
        return InputError(
            f"cannot write: {error.strerror}",
            where=str(error.filename or "the output folder"),
            fix="free some space, or choose a folder that can be written",
            code="output-full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "output-unwritable",
        )
    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("edgekit"):
        return SetupError(
            f"the package {error.name!r} is not installed",
            where=_place(error),
            fix="pip install 'edgekit[build]', or see: edgekit doctor",
            code="package-missing",
        )
    first = next(iter(str(error).strip().splitlines()), "")
    return EdgekitError(
        f"a fault of edgekit or of a library it calls: {type(error).__name__}: {first[:300]}",
        where=_place(error),
        fix="run it again with --debug for the traceback",
        code="internal",
    )


def _usage(error: click.ClickException) -> EdgekitError:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "edgekit"
    return InputError(error.format_message().rstrip("."), where=path, fix=f"see: {path} --help", code="usage")


def _place(error: BaseException) -> str:
    """The stage if the error passed one, and the line it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(_PACKAGE)] or list(frames)
    line = f"{own[-1].filename.rpartition('/')[2]}:{own[-1].lineno}" if own else ""
    return ", ".join([*getattr(error, "__notes__", ()), line])


def _print(error: EdgekitError) -> None:
    if error.code == "interrupted":
        click.echo(f"{error.what}; {error.fix}", err=True)
        return
    color = sys.stderr.isatty()
    click.echo(click.style("error", fg="red", bold=True) + f": {error.what}", err=True, color=color)
    for name, text in (("where", error.where), ("fix", error.fix)):
        if text:
            click.echo(click.style(f"{name:>5}", bold=True) + f": {text}", err=True, color=color)

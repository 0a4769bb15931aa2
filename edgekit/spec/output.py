"""Write results whole or not at all: into a temporary sibling, then one rename."""

import contextlib
import errno
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from edgekit.spec.errors import EdgekitError, InputError, SetupError

__all__ = ["failed_to_write", "new_directory", "new_file"]

FULL = (errno.ENOSPC, errno.EDQUOT)
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


def failed_to_write(path: Path, error: OSError) -> EdgekitError:
    """The error for `path`, which could not be written."""
    reason = error.strerror or str(error)
    if error.errno in FULL:
        return SetupError(
            f"no space left: {reason}", where=str(path), fix="free some space or name another folder", code="disk-full"
        )
    if error.errno in FORBIDDEN:
        fix = "name a folder you may write to, or change its permissions"
        return SetupError(f"cannot write: {reason}", where=str(path), fix=fix, code="unwritable")
    return InputError(f"cannot write: {reason}", where=str(path), fix="name another output path", code="output-path")


@contextlib.contextmanager
def new_directory(out: Path, *, replaceable: Callable[[Path], bool]) -> Iterator[Path]:
    """A temporary directory beside `out` that becomes `out` if the block succeeds, and is removed if not.

    Args:
        out: where the result shall be; missing parents are made.
        replaceable: whether the directory that is there already may be replaced; an empty one always may.

    Raises:
        InputError: `output-exists`, `output-path`.
        SetupError: `disk-full`, `unwritable`.
    """
    _refuse_existing(out, replaceable)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        temporary = _sibling(out, "tmp")
        temporary.mkdir()
        try:
            yield temporary
            _replace_directory(temporary, out)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise failed_to_write(out, error) from error


@contextlib.contextmanager
def new_file(out: Path) -> Iterator[Path]:
    """The path of a temporary file beside `out` that replaces `out` if the block succeeds, and is removed if not.

    Raises:
        InputError: `output-exists`, `output-path`.
        SetupError: `disk-full`, `unwritable`.
    """
    if out.is_dir():
        raise InputError(f"{out.name!r} is a folder", where=str(out), fix="name a file", code="output-exists")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        temporary = _sibling(out, "tmp")
        try:
            temporary.touch(exist_ok=False)
            yield temporary
            temporary.replace(out)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise failed_to_write(out, error) from error


def _refuse_existing(out: Path, replaceable: Callable[[Path], bool]) -> None:
    if not out.exists():
        return
    try:
        fine = out.is_dir() and (not any(out.iterdir()) or replaceable(out))
    except OSError as error:
        raise failed_to_write(out, error) from error
    if not fine:
        fix = "remove it or name another output path"
        raise InputError(f"{out.name!r} exists and is no bundle", where=str(out), fix=fix, code="output-exists")


def _replace_directory(temporary: Path, out: Path) -> None:
    """A directory that holds files cannot be renamed over, so the old one steps aside first."""
    if not out.exists() or not any(out.iterdir()):
        temporary.rename(out)
        return
    aside = _sibling(out, "old")
    out.rename(aside)
    try:
        temporary.rename(out)
    except OSError:
        aside.rename(out)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _sibling(out: Path, suffix: str) -> Path:
    """A free name beside `out`. Made by name, since `tempfile` would ignore the user's umask."""
    return out.with_name(f".{out.name}.{secrets.token_hex(6)}.{suffix}")

"""Keeps what C++ libraries print while they load: noise on success, the reason on failure."""

import contextlib
import os
import sys
import tempfile
import threading
from collections.abc import Iterator

__all__ = ["Captured", "captured"]

_LOCK = threading.RLock()
"""File descriptor 2 belongs to the whole process, so two captures must not overlap."""


class Captured:
    """Lines that were printed, filled when the block ends."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.lines: tuple[str, ...] = ()

    def last(self, *, default: object = "") -> str:
        """The last line that was printed, else `default`."""
        return self.lines[-1] if self.lines else str(default)


@contextlib.contextmanager
def captured() -> Iterator[Captured]:
    """Take file descriptor 2 for the length of the block; what other threads print to it then is lost with the noise."""
    result = Captured()
    with _LOCK:
        try:
            saved = os.dup(2)
        except OSError:
            # A process without standard error has nothing to keep clean.
            yield result
            return
        with tempfile.TemporaryFile() as sink:
            _flush()
            os.dup2(sink.fileno(), 2)
            try:
                yield result
            finally:
                _flush()
                os.dup2(saved, 2)
                os.close(saved)
                sink.seek(0)
                lines = sink.read().decode(errors="replace").splitlines()
                result.lines = tuple(line.strip() for line in lines if line.strip())


def _flush() -> None:
    with contextlib.suppress(AttributeError, ValueError, OSError):
        sys.stderr.flush()

"""Checkpoints of a running training: whole or absent, whatever stops it."""

import io
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

__all__ = ["FILE", "INTERVAL_S", "Keeper", "pack", "read", "write"]

FILE = "training.pt"
INTERVAL_S = 20.0
"""How much work an interrupt may cost."""

_SHARE = 0.05
"""At most this share of the time is spent on writing."""


def pack(state: dict[str, Any]) -> bytes:
    """A tree of tensors and plain values -> the bytes of a file."""
    # On a full disk torch's own writer ends the whole process, so the file is made in memory.
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def write(path: Path, packed: bytes) -> None:
    """Replace `path` in one step.

    Raises:
        OSError: the disk is full or may not be written; what lay at `path` is as it was.
    """
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
            file.write(packed)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise


def read(path: Path) -> dict[str, Any] | None:
    """What `write` wrote; None where there is nothing, or nothing that can be read: it is as good as none."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # torch has no class of its own for a damaged file
        return None
    return state if isinstance(state, dict) else None


class Keeper:
    """Writes the checkpoints of one training when they are due."""

    def __init__(self, folder: Path | None) -> None:
        """Without a folder nothing is ever due."""
        self.path = None if folder is None else folder / FILE
        self._last = time.monotonic()
        self._wait_s = INTERVAL_S

    def due(self) -> bool:
        """Whether the last checkpoint is old enough."""
        return self.path is not None and time.monotonic() - self._last >= self._wait_s

    def keep(self, packed: bytes) -> None:
        """Write it; see `write`."""
        if self.path is None:
            return
        begun = time.monotonic()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        for left_over in self.path.parent.glob(f"{FILE}.*.part"):
            left_over.unlink(missing_ok=True)
        write(self.path, packed)
        self._last = time.monotonic()
        self._wait_s = max(INTERVAL_S, (self._last - begun) / _SHARE)

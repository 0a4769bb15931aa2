"""Texts through the payloads of a bundle, or of a folder that is to become one, by the engines that they are for."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from edgekit.runtime import engines
from edgekit.runtime.engines import Session
from edgekit.spec.errors import SetupError
from edgekit.spec.manifest import Entry, Payload

__all__ = ["PayloadRunner", "inputs_of"]


class PayloadRunner:
    """A payload whose buckets are loaded when a text first needs them."""

    def __init__(self, payload: Payload, find: Callable[[str], Path], *, pad: int) -> None:
        """Take how a file of the payload is found, and the id of padding.

        Raises:
            SetupError: `engine-missing`.
        """
        self.payload, self._find, self._pad = payload, find, pad
        self._engine = engines.find(payload.engine)
        if self._engine.version() is None:
            raise SetupError(
                f"the engine {payload.engine} is not installed, so its payload cannot be proved",
                where=payload.engine,
                fix=self._engine.INSTALL,
                code="engine-missing",
            )
        self._sessions: dict[int, Session] = {}

    def logits(self, ids: Sequence[int]) -> np.ndarray:
        """Ids of one text, at most as many as the largest bucket -> (outputs,) float32."""
        entry = next(e for e in self.payload.entries if e.inputs[0].shape[1] >= len(ids))
        return self.run(entry, ids)

    def run(self, entry: Entry, ids: Sequence[int]) -> np.ndarray:
        """Ids of one text through one bucket -> (outputs,) float32."""
        tokens = entry.inputs[0].shape[1]
        if tokens not in self._sessions:
            self._sessions[tokens] = self._engine.load(self._find(entry.file), entry, threads=1)
        return np.asarray(self._sessions[tokens].run(*inputs_of(entry, ids, pad=self._pad))[0], np.float32).reshape(-1)

    def all(self, texts: Iterable[Sequence[int]]) -> np.ndarray:
        """-> (n, outputs) float32."""
        return np.stack([self.logits(ids) for ids in texts])

    def close(self) -> None:
        """Free the engine's memory."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()

    def __enter__(self) -> Self:
        """The runner itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close it."""
        self.close()


def inputs_of(entry: Entry, ids: Sequence[int], *, pad: int) -> tuple[np.ndarray, np.ndarray]:
    """-> ids (1, tokens) in the entry's dtype, padded, and keep (1, tokens) float32."""
    tokens = entry.inputs[0].shape[1]
    padded = np.full((1, tokens), pad, np.dtype(entry.inputs[0].dtype))
    padded[0, : len(ids)] = ids
    keep = np.zeros((1, tokens), np.float32)
    keep[0, : len(ids)] = 1
    return padded, keep

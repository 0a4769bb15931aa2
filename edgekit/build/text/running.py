"""Texts through the payloads of a bundle, or of a folder that is to become one, by the engines that they are for."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from edgekit.runtime import engines
from edgekit.runtime.engines import Session
from edgekit.spec.errors import SetupError
from edgekit.spec.manifest import Entry, Payload

__all__ = ["PayloadRunner", "inputs_of"]

_Key = tuple[str, int]
"""Rung and bucket."""


class PayloadRunner:
    """A payload whose entries are loaded when a text first needs them."""

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
        self._sessions: dict[_Key, Session] = {}
        self._files: dict[str, Session] = {}

    def logits(self, ids: Sequence[int]) -> np.ndarray:
        """Ids of one text, at most as many as the largest bucket -> (outputs,) float32 of the last rung."""
        return self.run(self._fitting(ids)[-1], ids)

    def run(self, entry: Entry, ids: Sequence[int]) -> np.ndarray:
        """Ids of one text through one bucket, as far as the rung of an entry -> (outputs,) float32."""
        *_, (_, logits, _) = self._walk(self._way(entry), ids)
        return logits

    def rungs(self, ids: Sequence[int]) -> dict[str, np.ndarray]:
        """Ids of one text through the smallest bucket that holds it -> (outputs,) float32 of every rung."""
        return {rung: logits for rung, logits, _ in self._walk(self._fitting(ids), ids)}

    def times_ms(self, ids: Sequence[int]) -> dict[str, float]:
        """The same -> CPU ms of every rung without those before it."""
        return {rung: took_ms for rung, _, took_ms in self._walk(self._fitting(ids), ids)}

    def all(self, texts: Iterable[Sequence[int]]) -> np.ndarray:
        """-> (n, outputs) float32."""
        return np.stack([self.logits(ids) for ids in texts])

    def _fitting(self, ids: Sequence[int]) -> tuple[Entry, ...]:
        """Entries of the smallest bucket that holds a text, by rung."""
        tokens = min(entry.tokens for entry in self.payload.entries if entry.tokens >= len(ids))
        return tuple(entry for entry in self.payload.entries if entry.tokens == tokens)

    def _way(self, entry: Entry) -> tuple[Entry, ...]:
        """Entries that lead to one, itself the last."""
        here = [each for each in self.payload.entries if each.tokens == entry.tokens]
        return tuple(here[: here.index(entry) + 1])

    def _walk(self, entries: Sequence[Entry], ids: Sequence[int]) -> Iterator[tuple[str, np.ndarray, float]]:
        """(rung, (outputs,) float32, CPU ms) of each entry, fed with the features of the one before."""
        x, keep = inputs_of(entries[0], ids, pad=self._pad)
        inputs: tuple[np.ndarray, ...] = (x,)
        for entry in entries:
            session = self._session(entry)
            begun = time.process_time_ns()
            logits, *features = session.run(*inputs, keep)
            took_ms = (time.process_time_ns() - begun) / 1e6
            yield entry.rung, np.asarray(logits, np.float32).reshape(-1), took_ms
            inputs = tuple(features)

    def _session(self, entry: Entry) -> Session:
        key = (entry.rung, entry.tokens)
        if key not in self._sessions:
            path, also = self._find(entry.file), getattr(self._files.get(entry.file), "also", None)
            self._sessions[key] = self._engine.load(path, entry, threads=1) if also is None else also(path, entry)
            self._files.setdefault(entry.file, self._sessions[key])
        return self._sessions[key]

    def close(self) -> None:
        """Free the engine's memory."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()
        self._files.clear()

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

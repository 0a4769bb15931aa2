"""A payload of a network that reads text: one entry for each length, of which only those are loaded that are used."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgekit.runtime import engines
from edgekit.runtime.engines import Engine, Session, Tensor
from edgekit.runtime.verify import GoldenResult, raw_values, result_of
from edgekit.spec.bundle import BundleReader
from edgekit.spec.errors import InputError
from edgekit.spec.manifest import Entry, Payload, Text

__all__ = ["PADDING", "LoadedText", "golden_ids", "load_text"]

PADDING = -1
"""Of golden ids; a network gets the tokenizer's own id of padding."""


class LoadedText:
    """A payload, ready to run. It has the calls of a `Session`; the length of the ids says which entry runs.

    Attributes:
        payload: what the manifest says of it.
        buckets: lengths that it takes, ascending.
    """

    def __init__(self, reader: BundleReader, payload: Payload, *, engine: Engine, text: Text, threads: int) -> None:
        """Load nothing yet but the shortest entry, so that a broken file is found now."""
        self.payload = payload
        self._entries = {entry.inputs[0].shape[1]: entry for entry in payload.entries}
        self.buckets = tuple(self._entries)
        self._reader, self._engine, self._text, self._threads = reader, engine, text, threads
        self._sessions: dict[int, Session] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._placed = self._session(self.buckets[0])

    @property
    def delegate(self) -> str:
        """Who runs the network inside the engine, as the shortest entry says."""
        return self._placed.delegate

    @property
    def fallback(self) -> tuple[str, ...]:
        """Operators of the shortest entry that the delegate left to the engine."""
        return self._placed.fallback

    def entry(self, tokens: int) -> Entry:
        """The entry of a bucket."""
        return self._entries[tokens]

    def bucket_of(self, count: int) -> int:
        """The shortest bucket that holds `count` tokens; the longest where none does."""
        return next((tokens for tokens in self.buckets if tokens >= count), self.buckets[-1])

    def tensors(self, ids: Sequence[int] | NDArray[Any], tokens: int) -> tuple[Tensor, Tensor]:
        """(n,) ids, n <= tokens, -1 for padding -> ids (1, tokens) in the entry's dtype, and keep (1, tokens) float32."""
        given = np.full((1, tokens), PADDING, np.int64)
        given[0, : len(ids)] = ids
        keep = given >= 0
        dtype = np.dtype(self._entries[tokens].inputs[0].dtype)
        return np.where(keep, given, self._text.pad).astype(dtype), keep.astype(np.float32)

    def run(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Ids (1, tokens) and keep (1, tokens) of a bucket -> outputs."""
        with self._lock:
            return self._session(inputs[0].shape[1]).run(*inputs)

    def _session(self, tokens: int) -> Session:
        if self._closed:
            raise InputError("the model is closed", where="Model", fix="open the bundle again", code="model-closed")
        if tokens not in self._sessions:
            entry = self._entries[tokens]
            path = self._reader.file(entry.file)
            opened = next((s for n, s in self._sessions.items() if self._entries[n].file == entry.file), None)
            also = getattr(opened, "also", None)
            self._sessions[tokens] = self._engine.load(path, entry, threads=self._threads) if also is None else also(path, entry)
        return self._sessions[tokens]

    def check_goldens(self, reader: BundleReader) -> tuple[GoldenResult, ...]:
        """Run the golden texts of every bucket; what was loaded for it alone is freed again."""
        kept = set(self._sessions)
        try:
            return tuple(self._check_bucket(reader, tokens) for tokens in self.buckets)
        finally:
            with self._lock:
                for tokens in set(self._sessions) - kept:
                    self._sessions.pop(tokens).close()

    def _check_bucket(self, reader: BundleReader, tokens: int) -> GoldenResult:
        expected = next(golden for golden in self.payload.goldens if golden.tokens == tokens)
        wanted = raw_values(reader.read(expected.file), expected.dtype, expected.shape, where=expected.file)
        outputs = [self.run(*self.tensors(row, tokens))[0].reshape(-1) for row in golden_ids(reader, tokens)]
        return result_of(outputs, wanted, expected)

    def sample_run(self, reader: BundleReader) -> Callable[[], object]:
        """A function that answers for the first golden text of every bucket, with its tensors made already."""
        inputs = [self.tensors(golden_ids(reader, tokens)[0], tokens) for tokens in self.buckets]
        return lambda: [self.run(*item) for item in inputs]

    def close(self) -> None:
        """Free the engine's memory; may be called again. Waits for a run in another thread."""
        with self._lock:
            self._closed = True
            for session in self._sessions.values():
                session.close()
            self._sessions.clear()


def golden_ids(reader: BundleReader, tokens: int) -> NDArray[Any]:
    """Golden texts of a bucket: (n, tokens) int32, -1 for padding."""
    inputs = next(item for item in reader.manifest.golden_inputs if item.shape[1] == tokens)
    return raw_values(reader.read(inputs.file), "int32", inputs.shape, where=inputs.file)


def load_text(reader: BundleReader, payload: Payload, *, threads: int) -> LoadedText:
    """Load a payload of a bundle whose network reads text.

    Raises:
        SetupError: the engine is not installed.
        BundleError: the engine refuses the file, or it is not what the manifest says.
        UnknownName: no such engine.
    """
    text = reader.manifest.text
    assert text is not None
    return LoadedText(reader, payload, engine=engines.find(payload.engine), text=text, threads=threads)

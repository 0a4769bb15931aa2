"""A payload of a network that reads text: an entry for each rung and length; only those that are used are loaded."""

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgekit.runtime import engines
from edgekit.runtime.engines import Engine, Session, Tensor
from edgekit.runtime.ladder import Input, Step, climb_all
from edgekit.runtime.verify import GoldenResult, raw_values, result_of
from edgekit.spec.bundle import BundleReader
from edgekit.spec.errors import InputError
from edgekit.spec.manifest import Entry, Payload, Text

__all__ = ["PADDING", "LoadedText", "golden_ids", "load_text"]

_Key = tuple[str, int]
"""Rung and bucket."""

PADDING = -1
"""Of golden ids; a network gets the tokenizer's own id of padding."""


class LoadedText:
    """A payload, ready to run. It has the calls of a `Session`; the length of the ids says which entries run.

    Attributes:
        payload: what the manifest says of it.
        rungs: that it serves, in order.
        buckets: lengths that it takes, ascending.
    """

    def __init__(self, reader: BundleReader, payload: Payload, *, engine: Engine, text: Text, threads: int) -> None:
        """Load nothing yet but the shortest entry of the first rung, so that a broken file is found now."""
        self.payload = payload
        self._entries = {(entry.rung, entry.tokens): entry for entry in payload.entries}
        self.buckets = tuple(dict.fromkeys(tokens for _, tokens in self._entries))
        served = {entry.rung for entry in payload.entries}
        self.rungs = tuple(rung for rung in reader.manifest.rungs if rung.name in served)
        self._reader, self._engine, self._text, self._threads = reader, engine, text, threads
        self._sessions: dict[_Key, Session] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._placed = self._session((self.rungs[0].name, self.buckets[0]))

    @property
    def delegate(self) -> str:
        """Who runs the network inside the engine, as the shortest entry says."""
        return self._placed.delegate

    @property
    def fallback(self) -> tuple[str, ...]:
        """Operators of the shortest entry that the delegate left to the engine."""
        return self._placed.fallback

    def entry(self, tokens: int, rung: str | None = None) -> Entry:
        """The entry of a bucket; of the last rung, unless another is named."""
        return self._entries[rung or self.rungs[-1].name, tokens]

    def bucket_of(self, count: int) -> int:
        """The shortest bucket that holds `count` tokens; the longest where none does."""
        return next((tokens for tokens in self.buckets if tokens >= count), self.buckets[-1])

    def tensors(self, ids: Sequence[int] | NDArray[Any], tokens: int) -> tuple[Tensor, Tensor]:
        """(n,) ids, n <= tokens, -1 for padding -> ids (1, tokens) in the entry's dtype, and keep (1, tokens) float32."""
        given = np.full((1, tokens), PADDING, np.int64)
        given[0, : len(ids)] = ids
        keep = given >= 0
        dtype = np.dtype(self._entries[self.rungs[0].name, tokens].inputs[0].dtype)
        return np.where(keep, given, self._text.pad).astype(dtype), keep.astype(np.float32)

    def steps_at(self, tokens: int) -> tuple[Step, ...]:
        """The rungs of a bucket, for `climb`; one that continues takes keep behind its features."""
        return tuple(Step(rung, functools.partial(self._call, (rung.name, tokens))) for rung in self.rungs)

    def input_of(self, tensors: tuple[Tensor, Tensor]) -> Input:
        """Ids and keep of a bucket, for `climb_all`."""
        return Input(self.steps_at(tensors[0].shape[1]), lambda rung: tensors, tensors[1:])

    def run(self, *inputs: Tensor, rung: str | None = None) -> tuple[Tensor, ...]:
        """Ids (1, tokens) and keep (1, tokens) of a bucket -> outputs of the last rung, or of another; no rung stops before."""
        target = rung or self.rungs[-1].name
        index = [each.name for each in self.rungs].index(target)
        first = index
        while self.rungs[first].continues:
            first -= 1
        tokens = inputs[0].shape[1]
        outputs = self._call((self.rungs[first].name, tokens), *inputs)
        for each in self.rungs[first + 1 : index + 1]:
            outputs = self._call((each.name, tokens), *outputs[1:], *inputs[1:])
        return outputs

    def _call(self, key: _Key, *inputs: Tensor) -> tuple[Tensor, ...]:
        with self._lock:
            return self._session(key).run(*inputs)

    def _session(self, key: _Key) -> Session:
        if self._closed:
            raise InputError("the model is closed", where="Model", fix="open the bundle again", code="model-closed")
        if key not in self._sessions:
            entry = self._entries[key]
            path = self._reader.file(entry.file)
            opened = next((s for k, s in self._sessions.items() if self._entries[k].file == entry.file), None)
            also = getattr(opened, "also", None)
            self._sessions[key] = self._engine.load(path, entry, threads=self._threads) if also is None else also(path, entry)
        return self._sessions[key]

    def check_goldens(self, reader: BundleReader) -> tuple[GoldenResult, ...]:
        """Run the golden texts of every rung and bucket; what was loaded for it alone is freed again."""
        kept = set(self._sessions)
        try:
            return tuple(self._check_entry(reader, *key) for key in self._entries)
        finally:
            with self._lock:
                for key in set(self._sessions) - kept:
                    self._sessions.pop(key).close()

    def _check_entry(self, reader: BundleReader, rung: str, tokens: int) -> GoldenResult:
        expected = next(golden for golden in self.payload.goldens if (golden.rung, golden.tokens) == (rung, tokens))
        wanted = raw_values(reader.read(expected.file), expected.dtype, expected.shape, where=expected.file)
        rows = golden_ids(reader, tokens)
        outputs = [self.run(*self.tensors(row, tokens), rung=rung)[0].reshape(-1) for row in rows]
        return result_of(outputs, wanted, expected)

    def sample_run(self, reader: BundleReader) -> Callable[[], object]:
        """A function that answers for the first golden text of every bucket, with its tensors made already."""
        inputs = [self.input_of(self.tensors(golden_ids(reader, tokens)[0], tokens)) for tokens in self.buckets]
        return lambda: climb_all(inputs)

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

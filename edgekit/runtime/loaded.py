"""A payload whose rungs are loaded into its engine."""

import threading
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgekit.runtime import engines
from edgekit.runtime.engines import Session, Tensor
from edgekit.runtime.ladder import Step, climb
from edgekit.runtime.pixels import apply_table
from edgekit.runtime.verify import GoldenResult, check_goldens, first_rung, golden_pixels, input_table
from edgekit.spec.bundle import BundleReader
from edgekit.spec.errors import InputError
from edgekit.spec.manifest import Entry, Payload, Rung

__all__ = ["Loaded", "load_payload"]


class _Guarded:
    """A session that one thread at a time may use."""

    def __init__(self, session: Session, lock: threading.Lock) -> None:
        self._session: Session | None = session
        self._lock = lock

    def run(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        with self._lock:
            if self._session is None:
                raise InputError("the model is closed", where="Model", fix="open the bundle again", code="model-closed")
            return self._session.run(*inputs)

    def close(self) -> None:
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            session.close()


class _Closable(Protocol):
    def close(self) -> None: ...


class Loaded:
    """A payload, ready to run.

    Attributes:
        payload: what the manifest says of it.
        steps: its rungs in order, for `climb`.
        delegate: who runs the network inside the engine; several rungs joined where they differ.
        fallback: operators that the delegate left to the engine.
    """

    def __init__(self, reader: BundleReader, payload: Payload, sessions: dict[str, Session]) -> None:
        """Wrap the sessions of all rungs of `payload`."""
        self.payload = payload
        self.delegate = "+".join(dict.fromkeys(session.delegate for session in sessions.values()))
        self.fallback = tuple(item for session in sessions.values() for item in session.fallback)
        self._entries = {entry.rung: entry for entry in payload.entries}
        self._tables = {e.rung: input_table(reader, e) for e in payload.entries if e.pixel_table is not None}
        # Sessions of one file share what the engine writes into.
        locks = {entry.file: threading.Lock() for entry in payload.entries}
        guarded = {name: _Guarded(session, locks[self._entries[name].file]) for name, session in sessions.items()}
        self._sessions: tuple[_Closable, ...] = tuple(guarded.values())
        self.steps = tuple(Step(rung, guarded[rung.name].run) for rung in reader.manifest.rungs if rung.name in guarded)

    def entry(self, rung: str) -> Entry:
        """The entry that serves a rung."""
        return self._entries[rung]

    def tensor(self, pixels: NDArray[np.uint8], rung: Rung) -> Tensor:
        """(resolution_px, resolution_px, 3) uint8 -> the input tensor of a rung that takes the image."""
        return apply_table(pixels, self._tables[rung.name], layout=self._entries[rung.name].inputs[0].layout)

    def walk_to(self, rung: str) -> Callable[..., tuple[Tensor, ...]]:
        """A function from the image's tensor to all outputs of `rung`, through every rung that it continues."""
        index = [step.rung.name for step in self.steps].index(rung)
        start = index
        while self.steps[start].rung.continues:
            start -= 1

        def walk(tensor: Tensor) -> tuple[Tensor, ...]:
            outputs = self.steps[start].run(tensor)
            for step in self.steps[start + 1 : index + 1]:
                outputs = step.run(*outputs[1:])
            return outputs

        return walk

    def check_goldens(self, reader: BundleReader) -> tuple[GoldenResult, ...]:
        """Run the golden images of every rung."""
        return tuple(
            check_goldens(self.walk_to(step.rung.name), reader, self.payload, rung=step.rung.name) for step in self.steps
        )

    def sample_run(self, reader: BundleReader) -> Callable[[], object]:
        """A function that answers for the first golden image, with its tensors made already."""
        tensors = self.golden_tensors(reader)
        return lambda: climb(self.steps, lambda rung: (tensors[rung.name],))

    def golden_tensors(self, reader: BundleReader) -> dict[str, Tensor]:
        """The first golden image as the input tensor of each rung that takes one."""
        starts = {first_rung(reader.manifest, step.rung.name) for step in self.steps}
        return {
            step.rung.name: self.tensor(golden_pixels(reader, step.rung.name)[0], step.rung)
            for step in self.steps
            if step.rung.name in starts
        }

    def close(self) -> None:
        """Free the engine's memory; may be called again. Waits for a run in another thread."""
        for session in self._sessions:
            session.close()


def load_payload(reader: BundleReader, payload: Payload, *, threads: int) -> Loaded:
    """Load all rungs of a payload into its engine.

    Raises:
        SetupError: the engine is not installed.
        BundleError: the engine refuses the file, or it is not what the manifest says.
        UnknownName: no such engine.
    """
    engine = engines.find(payload.engine)
    sessions: dict[str, Session] = {}
    try:
        opened: dict[str, Session] = {}
        for entry in payload.entries:
            path = reader.file(entry.file)
            also = getattr(opened.get(entry.file), "also", None)
            session = engine.load(path, entry, threads=threads) if also is None else also(path, entry)
            sessions[entry.rung] = opened[entry.file] = session
        return Loaded(reader, payload, sessions)
    except BaseException:
        for session in sessions.values():
            session.close()
        raise

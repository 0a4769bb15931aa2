"""Open payloads of a bundle to measure or compare them side by side."""

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from edgekit.runtime.engines import Engine, Session
from edgekit.runtime.engines import find as find_engine
from edgekit.runtime.loaded_text import PADDING, LoadedText, golden_ids, load_text
from edgekit.runtime.pixels import apply_table
from edgekit.runtime.verify import first_rung, golden_pixels, input_table
from edgekit.spec.bundle import BundleReader, open_bundle
from edgekit.spec.errors import SetupError
from edgekit.spec.manifest import Entry, Manifest, Payload

__all__ = ["Lane", "Lanes", "Missing", "answers", "open_lanes"]


@dataclasses.dataclass(frozen=True, slots=True)
class Missing:
    """An engine that a payload needs and that cannot run here.

    Attributes:
        engine: its name.
        why: it cannot run.
        fix: the command that mends it.
    """

    engine: str
    why: str
    fix: str


@dataclasses.dataclass(frozen=True, slots=True)
class Lane:
    """One payload, loaded.

    Attributes:
        bundle: where it comes from.
        digest: the bundle's.
        payload: its description in the manifest.
        entry: the piece that serves the rung.
        session: the engine's session; of a text network its `LoadedText`.
        prepare: golden pixels (height, width, 3), or token ids (n,) with -1 for padding -> the network's inputs.
        version: of the engine.
        sample: inputs of the first golden image or text.
        tokens: the bucket of the sample; None for images.
    """

    bundle: Path
    digest: str
    payload: Payload
    entry: Entry
    session: Session | LoadedText
    prepare: Callable[[np.ndarray], tuple[np.ndarray, ...]]
    version: str
    sample: tuple[np.ndarray, ...]
    tokens: int | None = None

    def run(self) -> np.ndarray:
        """First output for the sample."""
        return self.session.run(*self.sample)[0]

    def logits(self, item: np.ndarray) -> np.ndarray:
        """(height, width, 3) uint8 or (n,) token ids -> (classes,) in the output's dtype."""
        return np.asarray(self.session.run(*self.prepare(item))[0]).reshape(-1)

    def buckets(self) -> tuple["Lane", ...]:
        """A lane for each bucket of a text network; of images, this one."""
        if not isinstance(self.session, LoadedText):
            return (self,)
        session, lanes = self.session, []
        for tokens in session.buckets:
            # Full to the end: what an engine does must not depend on how long a golden text is.
            sample = session.tensors(np.resize(self.sample[0][0], tokens), tokens)
            lanes.append(dataclasses.replace(self, entry=session.entry(tokens), sample=sample, tokens=tokens))
        return tuple(lanes)


@dataclasses.dataclass(frozen=True, slots=True)
class Lanes:
    """The payloads of one bundle that can run here.

    Attributes:
        reader: the open bundle.
        lanes: its payloads.
        missing: engines of other payloads.
    """

    reader: BundleReader
    lanes: tuple[Lane, ...]
    missing: tuple[Missing, ...]


@contextlib.contextmanager
def open_lanes(
    path: Path,
    *,
    engines: Collection[str] | None = None,
    payloads: Collection[str] | None = None,
    threads: int = 1,
) -> Iterator[Lanes]:
    """Open a bundle and load its payloads for the last rung, the one whose answer is final.

    Args:
        path: of the bundle.
        engines: only these; None for all.
        payloads: only those with these ids; None for all.
        threads: of each session.

    Raises:
        SetupError: none of the engines is installed.
    """
    with contextlib.ExitStack() as stack:
        reader = stack.enter_context(open_bundle(path))
        wanted = [
            p
            for p in reader.manifest.payloads
            if (engines is None or p.engine in engines) and (payloads is None or p.id in payloads)
        ]
        found = {p.engine: find_engine(p.engine) for p in wanted}
        missing = tuple(
            Missing(name, f"not installed: {engine.INSTALL}", engine.INSTALL)
            for name, engine in found.items()
            if engine.version() is None
        )
        absent = {m.engine for m in missing}
        if absent.issuperset(found):
            raise _nothing_runs(path, reader.manifest, missing)
        lanes: list[Lane] = []
        for payload in wanted:
            if payload.engine not in absent:
                lanes.append(_load(reader, payload, found[payload.engine], threads))
                stack.callback(lanes[-1].session.close)
        yield Lanes(reader, tuple(lanes), missing)


def answers(lanes: Sequence[Lane], images: Iterable[np.ndarray]) -> list[np.ndarray]:
    """Images -> (n, classes) outputs of each lane; every image is prepared once."""
    found: list[list[np.ndarray]] = [[] for _ in lanes]
    for image in images:
        for outputs, lane in zip(found, lanes, strict=True):
            outputs.append(lane.logits(image))
    return [np.stack(outputs) for outputs in found]


def _load(reader: BundleReader, payload: Payload, engine: Engine, threads: int) -> Lane:
    if reader.manifest.text is not None:
        return _load_text(reader, payload, engine, threads)
    rung = reader.manifest.rungs[-1].name
    image = golden_pixels(reader, rung)[0]
    entries = {entry.rung: entry for entry in payload.entries}
    names = [each.name for each in reader.manifest.rungs]
    first = entries[first_rung(reader.manifest, rung)]
    way = [entries[name] for name in names[names.index(first.rung) :]]
    table = input_table(reader, first)
    sessions = [engine.load(reader.file(entry.file), entry, threads=threads) for entry in way]
    # Of one rung the engine's own session is timed, with nothing in between.
    session: Session = sessions[0] if len(sessions) == 1 else _Chain(sessions)
    layout = first.inputs[0].layout

    def prepare(pixels: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.asarray(apply_table(pixels, table, layout=layout)),)

    return Lane(reader.path, reader.digest, payload, entries[rung], session, prepare, engine.version() or "", prepare(image))


class _Chain:
    """The rungs that lead to the last one, as one session: each goes on with the features of the one before."""

    def __init__(self, sessions: Sequence[Session]) -> None:
        self.sessions = tuple(sessions)
        self.delegate = "+".join(dict.fromkeys(session.delegate for session in sessions))
        self.fallback = tuple(item for session in sessions for item in session.fallback)

    def run(self, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
        """Inputs of the first rung -> outputs of the last."""
        first, *others = self.sessions
        outputs = first.run(*inputs)
        for session in others:
            outputs = session.run(*outputs[1:])
        return outputs

    def close(self) -> None:
        """Free all of them."""
        for session in self.sessions:
            session.close()


def _load_text(reader: BundleReader, payload: Payload, engine: Engine, threads: int) -> Lane:
    session = load_text(reader, payload, threads=threads)

    def prepare(ids: np.ndarray) -> tuple[np.ndarray, ...]:
        held = ids[ids != PADDING]
        return session.tensors(held, session.bucket_of(len(held)))

    tokens = session.buckets[-1]
    sample = session.tensors(golden_ids(reader, tokens)[0], tokens)
    name = engine.version() or ""
    return Lane(reader.path, reader.digest, payload, session.entry(tokens), session, prepare, name, sample, tokens)


def _nothing_runs(path: Path, manifest: Manifest, missing: tuple[Missing, ...]) -> SetupError:
    if missing:
        names = ", ".join(m.engine for m in missing)
        return SetupError(f"engine {names} is not installed", where=str(path), fix=missing[0].fix, code="engine-missing")
    held = ", ".join(p.id for p in manifest.payloads)
    return SetupError("the bundle has no payload for the engines asked for", where=str(path), fix=f"it has {held}")

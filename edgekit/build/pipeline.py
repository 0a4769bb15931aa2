"""Chains of stages over content-addressed directories: a stage whose key is in the store is free, any other runs once.

A key covers the stage's name, version and fields, the digest of its input and the versions of its tools. Chains that begin
alike share that work through the store, so there is no graph of stages, only straight chains.
"""

import dataclasses
import enum
import errno
import importlib.metadata
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, ClassVar, Protocol

from edgekit.build.artifact import KINDS, Artifact, Pinned
from edgekit.build.store import Store, full_or_unwritable
from edgekit.spec.digest import canonical_json, sha256_bytes
from edgekit.spec.errors import EdgekitError, SetupError

__all__ = ["Event", "Observe", "Progress", "Stage", "StageRun", "check", "key", "run", "title", "toolchain"]

Progress = Callable[[float, str], None]
"""A stage reports how much is done (0..1) and what it is doing."""

_LEAST_FREE_BYTES = 1 << 20


class Stage(Protocol):
    """One step of a build: a frozen dataclass whose fields are its whole configuration.

    `run` reads `source`, never changes it, and writes only below `out`, an empty folder. Same input and same fields must give
    the same bytes. Raise `version` when `run` changes what it writes. A class may also carry `tools: ClassVar[tuple[str, ...]]`,
    the distributions whose installed versions enter its key, and a property `title`, its name among siblings.

    A stage that takes long may carry `resumes: ClassVar[bool] = True`; its `run` is then called with `resume=FOLDER`, which
    outlives an interrupt or a failure, and is gone once the stage is done. Resumed or not, it must give the same bytes.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    accepts: ClassVar[str]
    returns: ClassVar[str]

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Artifact of kind `accepts` -> content of kind `returns` in `out`."""
        ...


@dataclass(frozen=True, slots=True)
class StageRun:
    """How one stage of a chain went; `seconds` is the time spent now, near zero when `cached`."""

    name: str
    cached: bool
    seconds: float
    key: str


@dataclass(frozen=True, slots=True)
class Event:
    """What an observer is told.

    Attributes:
        kind: `started`, `waiting` (another process builds the same), `progress`, `done`, `cached` or `failed`; `told` is a remark
            in `note` that ends nothing.
        stage: name of the stage.
        index: place of the stage in its chain, from 0.
        count: length of the chain.
        fraction: how much of the stage is done, 0..1.
        note: what the stage is doing.
        seconds: since the stage began.
        key: the stage's key in the store: chains that share work tell of the same key.
    """

    kind: str
    stage: str
    index: int
    count: int
    fraction: float = 0.0
    note: str = ""
    seconds: float = 0.0
    key: str = ""


Observe = Callable[[Event], None]


def toolchain(stage: Stage) -> dict[str, str]:
    """The installed version of every distribution that the stage names; `absent` if it is not installed."""
    return {name: _installed(name) for name in sorted(getattr(stage, "tools", ()))}


def title(stage: Stage) -> str:
    """What to call a stage among its siblings, such as `lower onnx-int8`: its `title` if it has one, else its name."""
    return str(getattr(stage, "title", stage.name))


def key(stage: Stage, source_digest: str, tools: Mapping[str, str]) -> str:
    """The store's key of what `stage` makes of an input: SHA-256 in hexadecimal."""
    document = {
        "stage": stage.name,
        "version": stage.version,
        "returns": stage.returns,
        "fields": _plain(stage, stage.name),
        "input": source_digest,
        "tools": dict(tools),
    }
    return sha256_bytes(canonical_json(document))


def check(stages: Sequence[Stage], start_kind: str) -> None:
    """Refuse a chain whose kinds do not fit, before any work.

    Raises:
        EdgekitError: naming the two stages between which the chain breaks.
    """
    kind, before = start_kind, "the input"
    for stage in stages:
        for stated in (stage.accepts, stage.returns):
            if stated not in KINDS:
                raise _broken(f"stage {stage.name!r} names the kind {stated!r}", stage.name, f"use one of {', '.join(KINDS)}")
        if stage.accepts != kind:
            raise _broken(
                f"stage {stage.name!r} accepts {stage.accepts!r}, but {before} gives {kind!r}", stage.name, "reorder the chain"
            )
        kind, before = stage.returns, f"stage {stage.name!r}"


def run(
    stages: Sequence[Stage], source: Artifact, *, store: Store, observe: Observe = lambda event: None
) -> tuple[Artifact, tuple[StageRun, ...]]:
    """Fold a chain over `source` -> the last artifact and how each stage went.

    Whatever stops it (an error, Ctrl-C, a kill), finished stages stay in the store and the next run takes up from there.
    """
    check(stages, source.kind)
    store.sweep()
    runs = []
    artifact = source
    for index, stage in enumerate(stages):
        name = key(stage, artifact.digest, toolchain(stage))
        tell = _Teller(observe, title(stage), index, len(stages), name, time.monotonic())
        found = store.get(name)
        cached = found is not None
        if found is None:
            found, cached = _build(stage, artifact, name, store=store, tell=tell)
        tell.say("cached" if cached else "done", 1.0)
        runs.append(StageRun(title(stage), cached, round(tell.seconds(), 3), name))
        artifact = found
    return artifact, tuple(runs)


@dataclass(frozen=True, slots=True)
class _Teller:
    observe: Observe
    stage: str
    index: int
    count: int
    key: str
    begun: float

    def seconds(self) -> float:
        return time.monotonic() - self.begun

    def say(self, kind: str, fraction: float = 0.0, note: str = "") -> None:
        self.observe(Event(kind, self.stage, self.index, self.count, fraction, note, self.seconds(), self.key))

    def progress(self, fraction: float, note: str) -> None:
        self.say("progress", min(max(fraction, 0.0), 1.0), note)


def _build(stage: Stage, source: Artifact, name: str, *, store: Store, tell: _Teller) -> tuple[Artifact, bool]:
    with store.begin(name, waiting=lambda: tell.say("waiting", note="another process is building this")) as work:
        found = store.get(name)
        if found is not None:
            return found, True
        tell.say("started")
        begun = time.monotonic()
        with _explained(stage, store, tell):
            if getattr(stage, "resumes", False):
                stage.run(source, work.content, tell.progress, resume=work.resume())  # type: ignore[call-arg]
            else:
                stage.run(source, work.content, tell.progress)
            if not any(work.content.iterdir()):
                raise _broken(f"stage {stage.name!r} wrote nothing", stage.name, "report this as a fault of edgekit")
        return work.commit(stage.returns, stage=stage.name, seconds=time.monotonic() - begun), False


@contextmanager
def _explained(stage: Stage, store: Store, tell: _Teller) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        tell.say("failed", note=type(error).__name__)
        if isinstance(error, EdgekitError) or not isinstance(error, Exception):
            raise
        setup = _lack_of_space(error, store)
        if setup is not None:
            raise setup from error
        error.add_note(f"in stage {stage.name!r}")
        raise


def _lack_of_space(error: Exception, store: Store) -> SetupError | None:
    """Libraries report a full disk in ways of their own, so the disk itself is asked as well."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return full_or_unwritable(error, store.root)
    with suppress(OSError):
        if shutil.disk_usage(store.root).free < _LEAST_FREE_BYTES:
            return full_or_unwritable(OSError(errno.ENOSPC, "the disk is full"), store.root)
    return None


def _installed(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def _plain(value: Any, where: str) -> Any:
    """A stage's fields -> JSON values; whatever has no stable value of its own is refused rather than guessed."""
    if isinstance(value, Artifact | Pinned):
        return {"digest": value.digest}
    if value is None or isinstance(value, bool | int | float | str):
        return value.value if isinstance(value, enum.Enum) else value
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, tuple | frozenset):
        items = [_plain(item, f"{where}[]") for item in value]
        return sorted(items, key=canonical_json) if isinstance(value, frozenset) else items
    if isinstance(value, Mapping):
        return {str(name): _plain(item, f"{where}.{name}") for name, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: _plain(getattr(value, f.name), f"{where}.{f.name}") for f in dataclasses.fields(value)}
        return {"": type(value).__qualname__, **fields}
    hint = "wrap it in Pinned, so that its content counts" if isinstance(value, PurePath) else "use plain values or dataclasses"
    raise _broken(f"a field of type {type(value).__name__} cannot be part of a key", where, hint)


def _broken(what: str, where: str, fix: str) -> EdgekitError:
    return EdgekitError(what, where=where, fix=fix, code="pipeline")

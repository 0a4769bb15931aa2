"""The store: finished artifacts under the key of the stage that made them.

```
ROOT/entries/<key>/meta.json    kind, digest, stage, seconds
ROOT/entries/<key>/content/     the artifact
ROOT/work/<key>.lock            held with flock while somebody builds this key
ROOT/work/<key>/                the entry while it is being built
ROOT/resume/<key>/              checkpoints of a long stage that was interrupted; gone once its entry is there
```
An entry appears by one rename, so it is whole or absent. The kernel drops the lock of a process that dies, however it dies:
what lies in `work` without a live lock is left over and is removed. Two processes that want the same key do the work once.
"""

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from edgekit.build.artifact import KINDS, Artifact
from edgekit.spec.digest import sha256_tree
from edgekit.spec.errors import InputError, SetupError

__all__ = ["STORE_VARIABLE", "Store", "Work", "default_root", "full_or_unwritable"]

STORE_VARIABLE = "EDGEKIT_STORE"
"""Environment variable that names the store's folder."""

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_NO_ACCESS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)


def default_root() -> Path:
    """$EDGEKIT_STORE, else the user's cache folder."""
    chosen = os.environ.get(STORE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "edgekit" / "store"


def full_or_unwritable(error: OSError, path: Path) -> SetupError | None:
    """The error to show if `error` says that `path` has no space left or may not be written, else None."""
    if error.errno in _NO_SPACE:
        return SetupError(
            f"no space left: {error.strerror}",
            where=str(path),
            fix=f"free some space, or choose another disk with --store DIR or {STORE_VARIABLE}",
            code="store-full",
        )
    if error.errno in _NO_ACCESS or isinstance(error, FileNotFoundError | FileExistsError):
        return SetupError(
            f"the store cannot be written: {error.strerror}",
            where=str(error.filename or path),
            fix=f"make {path} writable, or choose another folder with --store DIR or {STORE_VARIABLE}",
            code="store-unwritable",
        )
    return None


@dataclass(frozen=True, slots=True)
class Work:
    """A key that this process holds the lock of, and the temporary folder in which its entry grows."""

    store: "Store"
    key: str
    folder: Path

    @property
    def content(self) -> Path:
        """Where the stage writes."""
        return self.folder / "content"

    def resume(self) -> Path:
        """A folder that outlives this process, for checkpoints; `commit` removes it."""
        folder = self.store.root / "resume" / self.key
        with self.store.explained():
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    def commit(self, kind: str, *, stage: str, seconds: float) -> Artifact:
        """Make the entry visible, whole, by one rename."""
        digest = sha256_tree(self.content)
        meta = {"kind": kind, "digest": digest, "stage": stage, "seconds": round(seconds, 3)}
        entry = self.store.entry(self.key)
        with self.store.explained():
            (self.folder / "meta.json").write_text(json.dumps(meta, sort_keys=True), encoding="utf-8")
            entry.parent.mkdir(parents=True, exist_ok=True)
            _discard(entry)
            self.folder.rename(entry)
            _discard(self.store.root / "resume" / self.key)
        return Artifact(kind, digest, entry / "content")


@dataclass(frozen=True, slots=True)
class Store:
    """Finished artifacts by key, in one folder that several processes may share."""

    root: Path

    def entry(self, key: str) -> Path:
        """Where the entry of `key` lies once it is finished."""
        return self.root / "entries" / key

    def get(self, key: str) -> Artifact | None:
        """The artifact under `key`; None if there is none or it is damaged: its bytes are hashed again every time."""
        entry = self.entry(key)
        try:
            meta = json.loads((entry / "meta.json").read_text(encoding="utf-8"))
            kind, digest = meta["kind"], meta["digest"]
            whole = kind in KINDS and sha256_tree(entry / "content") == digest
        except (OSError, ValueError, KeyError, TypeError, InputError):
            return None
        return Artifact(kind, digest, entry / "content") if whole else None

    @contextmanager
    def begin(self, key: str, *, waiting: Callable[[], None] = lambda: None) -> Iterator[Work]:
        """Hold the lock of `key` and give an empty temporary folder; without a commit nothing of it remains.

        Args:
            key: what will be built. Look it up again inside: another process may have finished it meanwhile.
            waiting: called once if another process is building the same.
        """
        folder = self.root / "work" / key
        with self._locked(key, waiting):
            try:
                with self.explained():
                    _discard(folder)
                    (folder / "content").mkdir(parents=True)
                yield Work(self, key, folder)
            finally:
                _discard(folder)

    def sweep(self) -> int:
        """Remove what dead processes left in `work`; returns how many builds that were. Live ones are not touched."""
        with self.explained():
            keys = {path.name.removesuffix(".lock") for path in (self.root / "work").glob("*")}
            return sum(self._sweep_one(key) for key in sorted(keys))

    def clean(self) -> int:
        """Remove all entries and leftovers; returns how many entries that were. Builds in progress are not touched."""
        self.sweep()
        entries = sorted((self.root / "entries").glob("*"))
        with self.explained():
            for entry in (*entries, *sorted((self.root / "resume").glob("*"))):
                _discard(entry)
        return len(entries)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn "disk full" and "permission denied" inside into an error that says what to do."""
        try:
            yield
        except OSError as error:
            setup = full_or_unwritable(error, self.root)
            if setup is None:
                raise
            raise setup from error

    @contextmanager
    def _locked(self, key: str, waiting: Callable[[], None]) -> Iterator[None]:
        path = self.root / "work" / f"{key}.lock"
        descriptor = self._acquire(path, waiting)
        try:
            yield
        finally:
            # Unlinked while held: whoever waits for this inode sees that the name is gone and starts again.
            with suppress(FileNotFoundError):
                path.unlink()
            os.close(descriptor)

    def _acquire(self, path: Path, waiting: Callable[[], None]) -> int:
        while True:
            with self.explained():
                path.parent.mkdir(parents=True, exist_ok=True)
                descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
            try:
                if not _try_lock(descriptor):
                    waiting()
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
                if _names(path, descriptor):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _sweep_one(self, key: str) -> bool:
        lock = self.root / "work" / f"{key}.lock"
        descriptor = os.open(lock, os.O_CREAT | os.O_RDWR, 0o644)
        try:
            if not _try_lock(descriptor) or not _names(lock, descriptor):
                return False
            _discard(self.root / "work" / key)
            lock.unlink()
            return True
        finally:
            os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _names(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _discard(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)

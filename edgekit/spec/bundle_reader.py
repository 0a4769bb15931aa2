"""Open a bundle. One that opens is whole: every byte was checked, or is checked before it is handed out."""

import contextlib
import hashlib
import shutil
import tempfile
import threading
import types
import weakref
from collections.abc import Mapping
from pathlib import Path

from edgekit.spec.check import parse_manifest
from edgekit.spec.digest import sha256_bytes
from edgekit.spec.errors import BundleError, InputError
from edgekit.spec.manifest import FileEntry, Manifest
from edgekit.spec.names import MANIFEST, MANIFEST_SUM, RESERVED
from edgekit.spec.output import failed_to_write
from edgekit.spec.sources import Source, open_source

__all__ = ["BundleReader", "check_sum", "open_bundle"]

MANIFEST_MAX_BYTES = 16 << 20
DAMAGED = "copy or download the bundle again, or build it"


def open_bundle(path: Path, *, verify_hashes: bool = True) -> "BundleReader":
    """Open the bundle at `path`, a directory or an `.ekb` file.

    Args:
        path: where it is.
        verify_hashes: hash every file now; if False, each when it is first asked for. None is handed out unchecked.

    Raises:
        BundleError: it must be refused; the code says why.
        SetupError: it cannot be read.
    """
    source = open_source(path)
    try:
        reader = BundleReader(path, source)
        if verify_hashes:
            reader.verify()
    except BaseException:
        source.close()
        raise
    return reader


class BundleReader:
    """An open bundle. Safe to share between threads.

    Attributes:
        path: the directory or file that was opened.
        manifest: the checked manifest.
        digest: SHA-256 of the bytes of `manifest.json`: the bundle's identity, the same for directory and zip.
        files: the listed files by name.
    """

    path: Path
    manifest: Manifest
    digest: str
    files: Mapping[str, FileEntry]

    def __init__(self, path: Path, source: Source) -> None:
        """Read the manifest and compare the list of files; `open_bundle` is the way in."""
        self.path = path
        self._source = source
        data = self._read_reserved(MANIFEST, MANIFEST_MAX_BYTES)
        self.digest = sha256_bytes(data)
        if MANIFEST_SUM in source.sizes:
            check_sum(self._read_reserved(MANIFEST_SUM, 200), self.digest, where=f"{path}:{MANIFEST_SUM}")
        self.manifest = parse_manifest(data)
        self.files = types.MappingProxyType({f.path: f for f in self.manifest.files})
        self._check_listing()
        self._checked: set[str] = set()
        self._lock = threading.Lock()
        self._temporary: Path | None = None
        self._cleanup = contextlib.ExitStack()
        self._cleanup.callback(source.close)
        self._finalizer = weakref.finalize(self, self._cleanup.close)

    def __enter__(self) -> "BundleReader":
        """The reader itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def read(self, name: str) -> bytes:
        """The checked bytes of the listed file `name`.

        Raises:
            BundleError: no such file, or its hash is wrong.
        """
        entry = self._entry(name)
        data = b"".join(self._source.chunks(name))
        self._compare(entry, sha256_bytes(data))
        return data

    def file(self, name: str) -> Path:
        """A real, checked file with the bytes of `name`, for engines that open files; of a zip a private copy until `close`.

        Raises:
            BundleError: no such file, or its hash is wrong.
            SetupError: no space or permission for the copy.
        """
        entry = self._entry(name)
        with self._lock:
            path = self._source.path(name)
            if path is not None:
                if name not in self._checked:
                    self._hash(entry)
                return path
            return self._extract(entry)

    def verify(self) -> None:
        """Hash every file that was not hashed yet.

        Raises:
            BundleError: `bundle-hash`; the first file that is damaged.
        """
        with self._lock:
            for name, entry in self.files.items():
                if name not in self._checked:
                    self._hash(entry)

    def close(self) -> None:
        """Close the file and remove private copies. A second call does nothing."""
        self._finalizer()

    def _read_reserved(self, name: str, limit_bytes: int) -> bytes:
        size = self._source.sizes.get(name)
        if size is None:
            raise BundleError(f"no {name}", where=str(self.path), fix="name the folder that holds it", code="bundle-missing")
        if size > limit_bytes:
            raise BundleError(f"{name} has {size} bytes", where=str(self.path), fix=DAMAGED, code="bundle-size")
        return b"".join(self._source.chunks(name))

    def _check_listing(self) -> None:
        found = self._source.sizes
        for name, entry in self.files.items():
            if name not in found:
                raise BundleError(f"file {name!r} is missing", where=str(self.path), fix=DAMAGED, code="bundle-missing")
            if found[name] != entry.size_bytes:
                what = f"file {name!r} has {found[name]} bytes, the manifest says {entry.size_bytes}"
                raise BundleError(what, where=self._at(name), fix=DAMAGED, code="bundle-size")
        if MANIFEST_SUM not in found:
            raise BundleError(f"file {MANIFEST_SUM!r} is missing", where=str(self.path), fix=DAMAGED, code="bundle-missing")
        for name in found:
            if name not in self.files and name not in RESERVED:
                what = f"file {name!r} is not listed in the manifest"
                raise BundleError(what, where=str(self.path), fix=f"remove {name}", code="bundle-unlisted")

    def _entry(self, name: str) -> FileEntry:
        if not self._finalizer.alive:
            raise InputError("the bundle is closed", where=str(self.path), fix="open it again", code="bundle-closed")
        if name not in self.files:
            raise BundleError(f"no file {name!r}", where=str(self.path), fix="see manifest.files", code="bundle-missing")
        return self.files[name]

    def _hash(self, entry: FileEntry) -> None:
        total = hashlib.sha256()
        for chunk in self._source.chunks(entry.path):
            total.update(chunk)
        self._compare(entry, total.hexdigest())
        self._checked.add(entry.path)

    def _compare(self, entry: FileEntry, sha256: str) -> None:
        if sha256 != entry.sha256:
            what = f"file {entry.path!r} is damaged: SHA-256 {sha256[:12]}..., the manifest says {entry.sha256[:12]}..."
            raise BundleError(what, where=self._at(entry.path), fix=DAMAGED, code="bundle-hash")

    def _extract(self, entry: FileEntry) -> Path:
        """A private copy, made once; it is only kept if its hash is right."""
        if self._temporary is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="edgekit-"))
            self._cleanup.callback(shutil.rmtree, self._temporary, ignore_errors=True)
        path = self._temporary / entry.path
        if path.exists():
            return path
        total = hashlib.sha256()
        part = path.with_name(f"{path.name}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as stream:
                for chunk in self._source.chunks(entry.path):
                    total.update(chunk)
                    stream.write(chunk)
        except OSError as error:
            raise failed_to_write(path, error) from error
        self._compare(entry, total.hexdigest())
        return part.rename(path)

    def _at(self, name: str) -> str:
        return f"{self.path}:{name}"


def check_sum(data: bytes, digest: str, *, where: str) -> None:
    """Refuse a `manifest.sha256` that is not the line `sha256sum manifest.json` prints.

    Raises:
        BundleError: `bundle-hash`.
    """
    if data != f"{digest}  {MANIFEST}\n".encode("ascii"):
        raise BundleError(f"{MANIFEST} is damaged: its SHA-256 is {digest[:12]}...", where=where, fix=DAMAGED, code="bundle-hash")

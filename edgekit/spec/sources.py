"""Where the bytes of a bundle come from: a directory or an `.ekb` file. Nothing here trusts what it reads."""

import os
import stat
import threading
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from edgekit.spec import ekb
from edgekit.spec.errors import BundleError, SetupError

__all__ = ["DirectorySource", "Source", "ZipSource", "open_source"]

CHUNK_BYTES = 1 << 20


class Source(Protocol):
    """Named byte strings."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """File name -> size in bytes, as found."""

    def chunks(self, name: str) -> Iterator[bytes]:
        """The bytes of one file, in pieces."""

    def path(self, name: str) -> Path | None:
        """The real file, where there is one."""

    def close(self) -> None:
        """Let go of open files."""


def open_source(path: Path) -> Source:
    """The directory or `.ekb` file at `path`.

    Raises:
        BundleError: nothing there, neither of the two, or a broken zip.
        SetupError: it cannot be read.
    """
    if not path.exists():
        raise BundleError(f"no bundle {path.name!r}", where=str(path), fix="check the path", code="bundle-not-found")
    try:
        return DirectorySource(path) if path.is_dir() else ZipSource(path)
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> SetupError:
    """The error for a file that is there but cannot be read."""
    return SetupError(f"cannot read: {error.strerror}", where=str(path), fix="check permissions and the disk", code="unreadable")


class DirectorySource:
    """A bundle as a directory. Links that lead out of it are refused, and so is all that is no plain file."""

    def __init__(self, root: Path) -> None:
        """List the directory."""
        self.root = root.resolve()
        self.sizes: Mapping[str, int] = dict(self._list(self.root))

    def _list(self, folder: Path) -> Iterator[tuple[str, int]]:
        for entry in sorted(os.scandir(folder), key=lambda e: e.name):
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                yield from self._list(path)
                continue
            if entry.is_symlink() and not path.resolve().is_relative_to(self.root):
                raise self._refuse(path, "is a link that leaves the bundle")
            if not path.is_file():
                raise self._refuse(path, "is no plain file")
            yield path.relative_to(self.root).as_posix(), path.stat().st_size

    def _refuse(self, path: Path, what: str) -> BundleError:
        name = path.relative_to(self.root).as_posix()
        return BundleError(f"{name!r} {what}", where=str(self.root), fix="put the file itself there", code="bundle-path")

    def chunks(self, name: str) -> Iterator[bytes]:
        """The bytes of one file, in pieces."""
        path = self.path(name)
        try:
            with path.open("rb") as stream:
                while chunk := stream.read(CHUNK_BYTES):
                    yield chunk
        except OSError as error:
            raise unreadable(path, error) from error

    def path(self, name: str) -> Path:
        """The file itself."""
        return self.root / name

    def close(self) -> None:
        """Nothing is held open."""


class ZipSource:
    """A bundle as a stored zip in its one canonical form."""

    def __init__(self, path: Path) -> None:
        """Read and check all headers."""
        if not stat.S_ISREG(path.stat().st_mode):
            raise BundleError("neither a folder nor a file", where=str(path), fix="name a bundle", code="bundle-zip")
        self._where = str(path)
        self._lock = threading.Lock()
        self._stream = path.open("rb")
        try:
            self._slots = {slot.name: slot for slot in self._parse()}
        except BaseException:
            self._stream.close()
            raise
        self.sizes: Mapping[str, int] = {name: slot.size_bytes for name, slot in self._slots.items()}

    def _parse(self) -> list[ekb.Slot]:
        size = self._stream.seek(0, os.SEEK_END)
        start = self._at(0, 4)
        if start != ekb.LOCAL_MAGIC.to_bytes(4, "little")[: len(start)]:
            raise BundleError(
                "not a bundle: neither a folder nor a zip", where=self._where, fix="name a folder or .ekb file", code="bundle-zip"
            )
        tail = self._at(max(size - ekb.TAIL.size, 0), ekb.TAIL.size)
        count, begin, length = ekb.parse_tail(tail, size, where=self._where)
        slots = ekb.parse_directory(self._at(begin, length), count, begin, where=self._where)
        end = slots[-1].data_offset + slots[-1].size_bytes if slots else 0
        if end != begin or any(self._at(s.header_offset, len(s.header)) != s.header for s in slots):
            raise BundleError(
                "an entry's header does not fit the zip's directory",
                where=self._where,
                fix="copy it again; or unpack it with any unzip and open the folder",
                code="bundle-zip",
            )
        return slots

    def _at(self, offset: int, length: int) -> bytes:
        with self._lock:
            self._stream.seek(offset)
            return self._stream.read(length)

    def chunks(self, name: str) -> Iterator[bytes]:
        """The bytes of one entry, in pieces; the last piece comes only if the CRC is right."""
        slot, crc = self._slots[name], 0
        for offset in range(0, slot.size_bytes, CHUNK_BYTES):
            chunk = self._at(slot.data_offset + offset, min(CHUNK_BYTES, slot.size_bytes - offset))
            crc = zlib.crc32(chunk, crc)
            if offset + CHUNK_BYTES >= slot.size_bytes and crc != slot.crc:
                break
            yield chunk
        if crc != slot.crc:
            raise BundleError(
                f"file {name!r} is damaged: its CRC is wrong",
                where=f"{self._where}:{name}",
                fix="copy or download the bundle again",
                code="bundle-hash",
            )

    def path(self, name: str) -> None:
        """An entry is no file of its own."""

    def close(self) -> None:
        """Close the zip."""
        self._stream.close()

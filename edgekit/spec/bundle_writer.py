"""Write bundles: the same manifest and contents give the same bytes, in a directory and as an `.ekb` file."""

import dataclasses
import functools
import json
import shutil
import zlib
from collections.abc import Mapping
from pathlib import Path

from edgekit.spec import ekb
from edgekit.spec.bundle_reader import open_bundle
from edgekit.spec.check import parse_manifest
from edgekit.spec.digest import sha256_bytes, sha256_file
from edgekit.spec.errors import InputError
from edgekit.spec.manifest import FileEntry, Manifest, refuse, to_json
from edgekit.spec.names import MANIFEST, MANIFEST_SUM, RESERVED, check_names
from edgekit.spec.output import new_directory, new_file

__all__ = ["manifest_bytes", "pack_zip", "write_bundle"]


def write_bundle(manifest: Manifest, contents: Mapping[str, bytes | Path], out: Path) -> str:
    """Write a bundle as the directory `out`, whole or not at all.

    Args:
        manifest: all but `files`, which is made from `contents`.
        contents: bundle path -> its bytes, or a file that is copied.
        out: the directory; a bundle that is there is replaced, anything else is refused.

    Returns:
        The bundle's digest.

    Raises:
        BundleError: what would be written, a reader would refuse.
        InputError: a content file is missing, or `out` is in the way.
        SetupError: no space or permission.
    """
    check_names([*RESERVED, *contents], where="contents")
    with new_directory(out, replaceable=lambda path: (path / MANIFEST).is_file()) as temporary:
        entries = tuple(_write_file(temporary, name, contents[name]) for name in sorted(contents))
        data = manifest_bytes(dataclasses.replace(manifest, files=entries))
        digest = sha256_bytes(data)
        (temporary / MANIFEST).write_bytes(data)
        (temporary / MANIFEST_SUM).write_bytes(f"{digest}  {MANIFEST}\n".encode("ascii"))
    return digest


def manifest_bytes(manifest: Manifest) -> bytes:
    """The manifest as JSON in UTF-8, in the order of its fields, two spaces deep, checked as a reader checks it.

    Raises:
        BundleError: a reader would refuse it.
    """
    try:
        text = json.dumps(to_json(manifest), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        data = text.encode("utf-8")
    except (TypeError, ValueError) as error:
        raise refuse(f"no JSON: {error}", "manifest") from error
    parse_manifest(data)
    return data


def pack_zip(directory: Path, out: Path) -> str:
    """The bundle in `directory` -> the `.ekb` file `out`; it has the same digest.

    Returns:
        The bundle's digest.

    Raises:
        BundleError: `directory` holds no whole bundle, or `bundle-too-large`: an `.ekb` holds less than 4 GiB.
        InputError: `out` is in the way.
        SetupError: no space or permission.
    """
    with open_bundle(directory) as bundle:
        names = [*RESERVED, *bundle.files]
        slots = [ekb.Slot(name, _crc(directory / name), (directory / name).stat().st_size) for name in names]
        size = sum(slot.size_bytes for slot in slots) + len(slots) * 1024
        if size > ekb.SIZE_MAX_BYTES:
            raise InputError(
                f"a bundle of {size} bytes is too large for an .ekb file",
                where=str(directory),
                fix="use the folder as it is",
                code="bundle-too-large",
            )
        placed, after = ekb.layout(slots)
        with new_file(out) as temporary, temporary.open("wb") as stream:
            for slot in placed:
                stream.write(slot.header)
                with (directory / slot.name).open("rb") as content:
                    shutil.copyfileobj(content, stream)
            stream.write(after)
        return bundle.digest


def _write_file(directory: Path, name: str, content: bytes | Path) -> FileEntry:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, Path):
        try:
            stream = content.open("rb")
        except OSError as error:
            what = f"cannot read the file for {name!r}: {error.strerror}"
            raise InputError(what, where=str(content), fix="check the path", code="input-missing") from error
        with stream, path.open("wb") as copy:
            shutil.copyfileobj(stream, copy, 1 << 20)
    else:
        path.write_bytes(content)
    return FileEntry(name, sha256_file(path), path.stat().st_size)


def _crc(path: Path) -> int:
    with path.open("rb") as stream:
        return functools.reduce(lambda crc, chunk: zlib.crc32(chunk, crc), iter(lambda: stream.read(1 << 20), b""), 0)

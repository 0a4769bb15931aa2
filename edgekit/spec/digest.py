"""Digests and canonical bytes: the same content has the same digest in every folder, on every machine."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from edgekit.spec.errors import InputError

__all__ = ["canonical_json", "sha256_bytes", "sha256_file", "sha256_tree"]


def sha256_bytes(data: bytes) -> str:
    """Lower-case hexadecimal SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """Lower-case hexadecimal SHA-256 of a file, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_tree(directory: Path) -> str:
    """SHA-256 over the sorted relative POSIX paths and digests of all files below `directory`.

    Times, modes, owners and the location of the directory do not matter; empty directories do not count.

    Raises:
        InputError: `directory` is none, or holds something that is neither a file nor a directory.
    """
    if not directory.is_dir():
        raise InputError(f"{directory.name!r} is not a directory", where=str(directory), fix="name a directory")
    digests = {path.relative_to(directory).as_posix(): sha256_file(path) for path in _files(directory)}
    lines = [f"{digests[name]}  {json.dumps(name)}\n" for name in sorted(digests)]
    return sha256_bytes("".join(lines).encode())


def _files(directory: Path) -> list[Path]:
    files = []
    for folder, subfolders, names in os.walk(directory, followlinks=False):
        for name in [*names, *(s for s in subfolders if Path(folder, s).is_symlink())]:
            path = Path(folder, name)
            # A link could point anywhere, and its content could change without the tree changing.
            if path.is_symlink() or not path.is_file():
                raise InputError("a link or special file cannot be part of a digest", where=str(path), fix="copy the file there")
            files.append(path)
    return files


def canonical_json(value: Any) -> bytes:
    """JSON with sorted keys, no spaces, in UTF-8.

    Raises:
        InputError: a value that JSON cannot hold, such as NaN.
    """
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return text.encode("utf-8")
    except (TypeError, ValueError) as error:
        raise InputError(
            f"no canonical JSON: {error}", where=f"{type(value).__name__} value", fix="use plain finite JSON values"
        ) from error

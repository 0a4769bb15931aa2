"""What stages hand to each other: content-addressed directories, and inputs that are pinned by their digest."""

from dataclasses import dataclass
from pathlib import Path

from edgekit.spec.digest import sha256_file, sha256_tree
from edgekit.spec.errors import InputError

__all__ = ["KINDS", "Artifact", "Pinned", "pin"]

KINDS = ("source", "checkpoint", "program", "quantized", "payload", "bundle", "report")
"""What an artifact may be; a stage names the kind it accepts and the kind it returns."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A directory that never changes.

    Attributes:
        kind: one of `KINDS`.
        digest: SHA-256 over the names and the bytes of its files.
        path: where it lies here and now; never part of a key.
    """

    kind: str
    digest: str
    path: Path


@dataclass(frozen=True, slots=True)
class Pinned:
    """A file or folder of the user as a field of a stage: the digest enters the stage's key, the path does not."""

    path: Path
    digest: str


def pin(path: Path) -> Pinned:
    """A file or folder -> the same with the digest of its content.

    Raises:
        InputError: nothing is there, or it cannot be read.
    """
    try:
        return Pinned(path, sha256_tree(path) if path.is_dir() else sha256_file(path))
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror or error}",
            where=str(path),
            fix="check the path and its permissions",
            code="unreadable",
        ) from error

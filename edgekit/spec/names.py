"""Names of files in a bundle: relative, plain ASCII, the same on every file system."""

import re
from collections.abc import Iterable

from edgekit.spec.errors import BundleError

__all__ = ["MANIFEST", "MANIFEST_SUM", "NAME_MAX_CHARS", "NAME_PATTERN", "RESERVED", "check_name", "check_names"]

MANIFEST = "manifest.json"
MANIFEST_SUM = "manifest.sha256"
RESERVED = (MANIFEST, MANIFEST_SUM)
"""Files that describe the bundle and so are not in the manifest's own list."""

NAME_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*$"
NAME_MAX_CHARS = 200


def check_name(name: str, *, where: str) -> None:
    """Refuse a name that could leave the bundle or mean different files on different systems.

    Raises:
        BundleError: `bundle-path`.
    """
    # fullmatch, because $ would let a newline at the end pass.
    if len(name) > NAME_MAX_CHARS or not re.fullmatch(NAME_PATTERN[1:-1], name):
        raise BundleError(
            f"file name {name[:80]!r} is not allowed",
            where=where,
            fix="use relative names of letters, digits, _ . + - and / whose parts do not start with a dot",
            code="bundle-path",
        )


def check_names(names: Iterable[str], *, where: str) -> None:
    """Refuse names that are not allowed, occur twice, or differ only by case.

    Raises:
        BundleError: `bundle-path` or `bundle-duplicate`.
    """
    seen: set[str] = set()
    folders: set[str] = set()
    for name in names:
        check_name(name, where=where)
        folded = name.lower()
        parts = folded.split("/")
        parents = {"/".join(parts[:i]) for i in range(1, len(parts))}
        if folded in seen or folded in folders or parents & seen:
            raise BundleError(
                f"file name {name!r} occurs twice, by case, or as file and folder",
                where=where,
                fix="build or copy the bundle again",
                code="bundle-duplicate",
            )
        seen.add(folded)
        folders |= parents

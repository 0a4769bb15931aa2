"""One manifest of the vectors: a base and what is changed in it."""

import copy
import json
from dataclasses import dataclass
from typing import Any

GONE = object()
"""Value of an edit that takes the field away."""


@dataclass(frozen=True, slots=True)
class Case:
    """One manifest: the base it starts from, edits (dotted path, value), expected error code, and whether the schema takes it."""

    name: str
    why: str
    error: str | None
    schema: bool | None
    edits: tuple[tuple[str, Any], ...] = ()
    base: str = "nano"
    raw: bytes | None = None


def edited(base: Any, edits: tuple[tuple[str, Any], ...]) -> Any:
    """A copy of `base` with values replaced, added or taken away."""
    values = copy.deepcopy(base)
    for path, value in edits:
        *parents, last = [int(p) if p.isdigit() else p for p in path.split(".")]
        node = values
        for key in parents:
            node = node[key]
        if value is GONE:
            del node[last]
        else:
            # Through JSON, so that no two places share what a later edit changes.
            node[last] = json.loads(json.dumps(value))
    return values


ENTRY = "payloads.0.entries.0"
IMAGE = f"{ENTRY}.inputs.0"
GOLDEN = "payloads.0.goldens.0"
BAD = "bundle-manifest"


def good(name: str, why: str, *edits: tuple[str, Any], base: str = "nano") -> Case:
    """A manifest that every reader takes."""
    return Case(name, why, None, True, edits, base)


def shape(name: str, why: str, *edits: tuple[str, Any], base: str = "nano", error: str = BAD) -> Case:
    """A manifest that the schema refuses, and so every reader."""
    return Case(name, why, error, False, edits, base)


def rule(name: str, why: str, *edits: tuple[str, Any], base: str = "nano", error: str = BAD) -> Case:
    """A manifest that the schema cannot refuse, but the rules do."""
    return Case(name, why, error, True, edits, base)

"""What all engines check and report in the same words."""

import importlib.metadata
import importlib.util
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgekit.spec.errors import BundleError, SetupError
from edgekit.spec.manifest import TensorSpec

__all__ = ["check_edges", "count_types", "installed_version", "load_failure", "missing_engine", "no_such_method"]


def installed_version(module: str, distribution: str) -> str | None:
    """Version of a distribution whose module can be found, without importing it."""
    try:
        if importlib.util.find_spec(module) is None:
            return None
        return importlib.metadata.version(distribution)
    except (ImportError, ValueError, importlib.metadata.PackageNotFoundError):
        return None


def missing_engine(name: str, install: str, error: ImportError) -> SetupError:
    """The error for an engine whose library cannot be imported."""
    return SetupError(f"engine {name!r} cannot be imported: {error}", where=f"engine {name}", fix=install, code="engine-missing")


def load_failure(path: Path, reason: object) -> BundleError:
    """The error for a payload that the engine refuses; keeps the first line of its reason."""
    lines = [line.strip() for line in str(reason).splitlines() if line.strip()]
    return BundleError(
        f"payload {path.name!r} cannot be loaded: {lines[0] if lines else 'the engine gives no reason'}",
        where=str(path),
        fix="copy the bundle again or rebuild it",
        code="payload-broken",
    )


def no_such_method(path: Path, method: str, known: Iterable[str]) -> BundleError:
    """The error for an entry whose method the payload lacks."""
    return BundleError(
        f"payload {path.name!r} has no method {method!r}, only {', '.join(sorted(known)) or 'none'}",
        where=str(path),
        fix="rebuild the bundle",
        code="payload-mismatch",
    )


def check_edges(path: Path, specs: Sequence[TensorSpec], found: Sequence[tuple[np.dtype[Any], Sequence[int]]]) -> None:
    """Hold the tensors that the engine reports to those of the manifest.

    Raises:
        BundleError: number, dtype or shape differ; a wrong dtype would otherwise be reinterpreted in silence.
    """
    described = [(np.dtype(spec.dtype), tuple(spec.shape)) for spec in specs]
    actual = [(np.dtype(dtype), tuple(int(side) for side in shape)) for dtype, shape in found]
    if len(actual) == len(specs):
        actual = [(dtype, _fixed(shape, spec)) for (dtype, shape), spec in zip(actual, specs, strict=True)]
    if described != actual:
        raise BundleError(
            f"payload {path.name!r} has edges {_words(actual)}, the manifest says {_words(described)}",
            where=str(path),
            fix="rebuild the bundle",
            code="payload-mismatch",
        )


def _fixed(shape: tuple[int, ...], spec: TensorSpec) -> tuple[int, ...]:
    """A symbolic length (-1) of a tensor of tokens or of their features fits every bucket."""
    if spec.layout not in ("NT", "TC") or len(shape) != len(spec.shape):
        return shape
    return tuple(wanted if side == -1 else side for side, wanted in zip(shape, spec.shape, strict=True))


def _words(edges: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]) -> str:
    return ", ".join(f"{dtype.name}{list(shape)}" for dtype, shape in edges) or "none"


def count_types(types: Iterable[str]) -> tuple[str, ...]:
    """("ADD", "ADD", "PAD") -> ("ADD x 2", "PAD x 1")."""
    return tuple(f"{kind} x {count}" for kind, count in sorted(Counter(types).items()))

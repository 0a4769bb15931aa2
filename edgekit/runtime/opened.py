"""What every open bundle is, whatever its network reads."""

from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from edgekit.runtime.decode import read_labels
from edgekit.runtime.results import Refusal
from edgekit.spec.bundle import BundleReader
from edgekit.spec.errors import InputError
from edgekit.spec.manifest import Manifest, Payload

__all__ = ["Opened", "check_top"]


class Runs(Protocol):
    """A payload in its engine."""

    payload: Payload

    @property
    def delegate(self) -> str:
        """Who runs it."""
        ...

    @property
    def fallback(self) -> tuple[str, ...]:
        """Operators that were not delegated."""
        ...

    def close(self) -> None:
        """Free its memory."""
        ...


L = TypeVar("L", bound=Runs)


class Opened(Generic[L]):
    """An open bundle with one payload loaded.

    Attributes:
        manifest: the bundle's manifest.
        digest: the bundle's digest.
        payload: the payload that runs.
        threads: threads that the engine may use.
        labels: class names; empty if the bundle has none.
        refused: the payloads that were not taken, and why.
    """

    manifest: Manifest
    digest: str
    payload: Payload
    threads: int
    labels: tuple[str, ...]
    refused: tuple[Refusal, ...]

    def __init__(self, reader: BundleReader, loaded: L, *, refused: tuple[Refusal, ...], threads: int) -> None:
        """Wrap what `open_model` has loaded; it closes both."""
        self._reader = reader
        self._loaded = loaded
        self.manifest = reader.manifest
        self.digest = reader.digest
        self.payload = loaded.payload
        self.threads = threads
        self.labels = _labels(reader)
        self.refused = refused

    @property
    def engine(self) -> str:
        """Name of the engine that runs."""
        return self.payload.engine

    @property
    def precision(self) -> str:
        """Precision of the payload."""
        return self.payload.precision

    @property
    def delegate(self) -> str:
        """Who runs the network inside the engine, as the engine reports it."""
        return self._loaded.delegate

    @property
    def fallback(self) -> tuple[str, ...]:
        """Operators that the delegate left to the engine's own kernels."""
        return self._loaded.fallback

    def close(self) -> None:
        """Free the engine's memory and the bundle; may be called again."""
        self._loaded.close()
        self._reader.close()

    def __enter__(self) -> Self:
        """The model itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close it."""
        self.close()


def check_top(top: int) -> None:
    """Refuse to give no label.

    Raises:
        InputError: `argument`.
    """
    if top < 1:
        raise InputError(f"top is {top}", where="top", fix="ask for at least one label", code="argument")


def _labels(reader: BundleReader) -> tuple[str, ...]:
    name = reader.manifest.labels
    if name is None:
        return ()
    return read_labels(reader.read(name), classes=reader.manifest.model.classes, where=f"{reader.path}:{name}")

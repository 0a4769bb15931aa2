"""Engines: one module each that runs one payload format, found by entry point `edgekit.engines`."""

import importlib.metadata
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from edgekit.spec.errors import UnknownName
from edgekit.spec.manifest import Entry

__all__ = ["Engine", "Session", "Tensor", "find", "names"]

Tensor = NDArray[Any]
"""An array of `int8`, `uint8`, `int32`, `int64`, `float16` or `float32`."""


class Session(Protocol):
    """A loaded entry of a payload. Not thread-safe: the caller holds one lock per session.

    A session may have a method `also(path, entry) -> Session`: another entry of the same file, without loading the file again.
    Sessions of one file are closed together and not used at the same time.

    Attributes:
        delegate: who runs the network: `XNNPACK`, `CPUExecutionProvider`, `CPU`, or several joined with `+`.
        fallback: types of the operators that the delegate left to the engine's own kernels, as `TYPE x COUNT`.
    """

    delegate: str
    fallback: tuple[str, ...]

    def run(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Inputs in dtype and shape of the entry -> outputs, owned by the caller."""
        ...

    def close(self) -> None:
        """Free the engine's memory; may be called again."""
        ...


class Engine(Protocol):
    """A module of this package, or of a third party.

    Attributes:
        NAME: as in the manifest.
        INSTALL: the command that installs it.
    """

    NAME: str
    INSTALL: str

    def version(self) -> str | None:
        """Installed version, None where it cannot be imported; must not import the engine's library."""
        ...

    def load(self, path: Path, entry: Entry, *, threads: int) -> Session:
        """Load one entry of a payload file.

        Raises:
            SetupError: the engine is not installed.
            BundleError: the file is no payload of this engine, or not the one that the entry describes.
        """
        ...


def names() -> tuple[str, ...]:
    """Names of all engines that are declared, installed or not."""
    return tuple(sorted({point.name for point in importlib.metadata.entry_points(group="edgekit.engines")}))


def find(name: str) -> Engine:
    """The module that runs payloads of engine `name`; its library need not be installed.

    Raises:
        UnknownName: no entry point of this name.
    """
    for point in importlib.metadata.entry_points(group="edgekit.engines", name=name):
        module: Engine = point.load()
        return module
    raise UnknownName("engine", name, names(), listing="edgekit doctor")

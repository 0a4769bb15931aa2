"""Where a network comes from, before its code was run."""

from dataclasses import dataclass
from pathlib import Path

from edgekit.spec.model import ModelSpec

__all__ = ["ModelSource"]


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where a network comes from; its code was not run yet.

    Attributes:
        kind: `family` (a file with SPECS: call `make(factory, classes=...)`), `file` (the user's own: call `factory()`) or
            `timm` (call `timm.create_model(factory)`).
        factory: what is called or passed, see `kind`.
        path: the family's or the user's file; None for timm.
        spec: what is known of it. Of a user's file without SPECS the usual ImageNet preprocessing is assumed and `classes`
            is 0: as many as the network gives. None for timm, whose registry only timm can read.
    """

    kind: str
    factory: str
    path: Path | None
    spec: ModelSpec | None

    @property
    def name(self) -> str:
        """A name for people and for folders."""
        return self.spec.name if self.spec else self.factory

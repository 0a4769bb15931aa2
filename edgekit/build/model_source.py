"""Where a network comes from, before its code was run."""

from dataclasses import dataclass
from pathlib import Path

from edgekit.spec.model import ModelSpec

__all__ = ["ModelSource"]


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where a network comes from; its code was not run yet.

    Attributes:
        kind: `family` (a file with SPECS: call `make(factory, classes=...)`), `file` (the user's own: call `factory()`),
            `timm` (call `timm.create_model(factory)`) or `hf` (a local folder as Hugging Face writes it).
        factory: what is called or passed, see `kind`.
        path: the family's or the user's file, or the folder; None for timm.
        spec: what is known of it. Of a user's file without SPECS the usual ImageNet preprocessing is assumed and `classes`
            is 0: as many as the network gives. None for timm, whose registry only timm can read.
    """

    kind: str
    factory: str
    path: Path | None
    spec: ModelSpec | None

    @property
    def reads_text(self) -> bool:
        """Whether its input is text."""
        return self.spec is not None and self.spec.reads_text

    @property
    def name(self) -> str:
        """A name for people and for folders."""
        return self.spec.name if self.spec else self.factory

"""Where a network comes from. Its code is run by `construct.py`."""

from dataclasses import dataclass

from edgekit.build.artifact import Pinned

__all__ = ["Network"]


@dataclass(frozen=True, slots=True)
class Network:
    """Where a network comes from, with everything that decides its weights.

    Attributes:
        kind: `family` (call `make(factory, classes=...)` of `file`), `file` (call `factory()` of it) or `timm`.
        factory: what is called, see `kind`.
        file: the family's or the user's file; None for timm.
        weights: trained weights; None for random ones.
        classes: outputs; None for as many as the weights or the network have.
        seed: of random weights.
    """

    kind: str
    factory: str
    file: Pinned | None
    weights: Pinned | None
    classes: int | None
    seed: int

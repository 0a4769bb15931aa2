"""What is wished for of a ladder: plain values, free of torch."""

from dataclasses import dataclass

from edgekit.build.compression import Teacher

__all__ = ["DEFAULT_DROP_PP", "KINDS", "Adaptive"]

KINDS = ("exits", "resolution", "auto")

DEFAULT_DROP_PP = 1.0
"""Points of harmful answers where nobody says how many."""


@dataclass(frozen=True, slots=True)
class Adaptive:
    """A network that stops early where it is sure.

    Attributes:
        kinds: of `KINDS`; `auto` tries all that the network can. Empty where only another network is routed to.
        exits_after: modules behind which an exit may sit; of a text network numbers of layers. Empty takes the model's own.
        resolutions_px: sides of the image, ascending, the largest is the full network; empty takes the model's own.
        route_to: a larger network that answers where this one is not sure; None without.
        joint: whether exits are trained together with the network, which then changes too.
    """

    kinds: tuple[str, ...] = ()
    exits_after: tuple[str, ...] = ()
    resolutions_px: tuple[int, ...] = ()
    route_to: Teacher | None = None
    joint: bool = False

    def wants(self, kind: str) -> bool:
        """Whether rungs of a kind are to be tried."""
        return kind in self.kinds or "auto" in self.kinds

"""The rungs of a ladder, as the manifest tells them."""

import dataclasses

from edgekit.spec.codec import UNWRITTEN

__all__ = ["FLOORS", "Margins", "Rung"]

FLOORS = ("accurate", "balanced", "fast")
"""How much care may be asked for, from most to least."""


@dataclasses.dataclass(frozen=True, slots=True)
class Margins:
    """What makes an answer good enough where more or less care is asked for than `balanced`.

    Attributes:
        accurate: at least `min_margin`.
        fast: at most `min_margin`.
    """

    accurate: float
    fast: float


@dataclasses.dataclass(frozen=True, slots=True)
class Rung:
    """One step of the ladder.

    Attributes:
        name: unique in the bundle.
        resolution_px: side of the square crop that the network sees; 0 where it reads text.
        resize_px: the shorter side of the image is resized to this before the crop; 0 where the network reads text.
        continues: True if it takes the features of the rung before; False if it starts again from the image.
        min_margin: steps (integer outputs) between best and second logit that make this answer good enough; 0 on the last rung.
        margins: the same for the floors `accurate` and `fast`; None where they are as `min_margin`, that of the floor `balanced`.
    """

    name: str
    resolution_px: int = dataclasses.field(default=0, metadata=UNWRITTEN)
    resize_px: int = dataclasses.field(default=0, metadata=UNWRITTEN)
    continues: bool = False
    min_margin: float = 0
    margins: Margins | None = dataclasses.field(default=None, metadata=UNWRITTEN)

    def enough(self, floor: str) -> float:
        """The margin that makes an answer of this rung good enough at a floor."""
        if self.margins is None or floor == "balanced":
            return self.min_margin
        return self.margins.accurate if floor == "accurate" else self.margins.fast

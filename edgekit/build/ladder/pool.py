"""Everything a ladder may be made of: each piece quantized once, lowered once, measured before one ladder is chosen."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgekit.build.artifact import Artifact
from edgekit.build.stages.lower_rungs import RungPart
from edgekit.spec.manifest import Rung

__all__ = ["NEVER", "Candidate", "Piece", "Pool"]

NEVER = 256.0
"""A margin that no two int8 logits have."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A quantized program in the pool.

    Attributes:
        part: the program and the names of the rungs that it serves.
        resolution_px: side of the image.
        resize_px: shorter side that the crop is taken from.
        program: the same network in float, to be held against.
    """

    part: RungPart
    resolution_px: int
    resize_px: int
    program: Artifact

    @property
    def rungs(self) -> tuple[Rung, ...]:
        """Its rungs, of which none but the last of a ladder stops: the first takes the photo, others go on with its features."""
        first = Rung(self.part.rungs[0], self.resolution_px, self.resize_px, continues=False, min_margin=NEVER)
        return (first, *(replace(first, name=name, continues=True) for name in self.part.rungs[1:]))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A ladder that could be built: rungs of the pool, in order; of one rung it is a plain network.

    Attributes:
        kind: `static`, `exits`, `resolution` or `routing`.
        rungs: names.
    """

    kind: str
    rungs: tuple[str, ...]

    @property
    def name(self) -> str:
        """For tables."""
        return " -> ".join(self.rungs)


@dataclass(frozen=True, slots=True)
class Pool:
    """The pieces and the ladders to choose from.

    Attributes:
        pieces: in the order of the trial bundle; the last one's answer is the full network's.
        candidates: ladders; each ends in a rung whose answer is the full network's.
    """

    pieces: tuple[Piece, ...]
    candidates: tuple[Candidate, ...]

    @property
    def rungs(self) -> tuple[Rung, ...]:
        """Of the trial bundle: no rung stops but the last."""
        rungs = [rung for piece in self.pieces for rung in piece.rungs]
        return (*rungs[:-1], replace(rungs[-1], min_margin=0))

    @property
    def parts(self) -> tuple[RungPart, ...]:
        """Of the trial bundle."""
        return tuple(piece.part for piece in self.pieces)

    def program_of(self, rung: str) -> Artifact:
        """The float network of a rung."""
        return next(piece.program for piece in self.pieces if rung in piece.part.rungs)

    def needed(self, rungs: Sequence[str]) -> tuple[Piece, ...]:
        """The pieces that some rungs lie in.

        Raises:
            ValueError: rungs of a piece without those before them.
        """
        found = tuple(piece for piece in self.pieces if set(piece.part.rungs) & set(rungs))
        held = [name for piece in found for name in piece.part.rungs]
        if held != list(rungs):
            raise ValueError(f"rungs {rungs} are not all of the pieces that hold them: {held}")
        return found

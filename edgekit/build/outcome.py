"""What a guarded or trained build found out, as values for people, programs and reports."""

from collections.abc import Mapping
from dataclasses import dataclass

from edgekit.bench.promise import Promise

__all__ = ["Attempt", "GradedNetwork", "Guarded"]


@dataclass(frozen=True, slots=True)
class GradedNetwork:
    """A float network on the photos to report on, which no training and no decision saw.

    Attributes:
        name: `teacher`, `student alone`, `student distilled`, `whole` (before it was made smaller), `before exits` or `network`.
        n: photos.
        top1: share (0..1) of right first answers.
        interval: its 95 % interval (Wilson).
        parameters: of the network.
        macs: multiply-accumulates of one photo.
    """

    name: str
    n: int
    top1: float
    interval: tuple[float, float]
    parameters: int
    macs: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """One repair, or the bundle as it is without one.

    Attributes:
        name: of the repair.
        what: it did, in words.
        promises: by payload, on the photos to decide on; empty if it gave no bundle.
        kept: whether every payload keeps the promise.
        gained_pp: drop of the best attempt before it minus its own, in percentage points; None for the first.
        seconds: it took now; near zero where the store had it.
        why_not: why it gave no bundle.
    """

    name: str
    what: str
    promises: Mapping[str, Promise]
    kept: bool
    gained_pp: float | None
    seconds: float
    why_not: str = ""

    @property
    def worst(self) -> Promise | None:
        """Of the payload that may be promised least."""
        return max(self.promises.values(), key=lambda p: p.bound_pp, default=None)


@dataclass(frozen=True, slots=True)
class Guarded:
    """How the guard went.

    Attributes:
        max_drop_pp: that was allowed.
        metric: `top-1`, or `agreement with float` without labels.
        attempts: in the order they were made.
        chosen: the one that is delivered: the first that keeps the promise, else the one that may promise most.
        seconds: of all attempts.
        out_of_time: whether the time budget ended it.
    """

    max_drop_pp: float
    metric: str
    attempts: tuple[Attempt, ...]
    chosen: Attempt
    seconds: float
    out_of_time: bool

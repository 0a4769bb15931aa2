"""Margins with a guarantee: at most so many inputs are answered wrong by the ladder that the full network answers right.

A vector of margins is tested on examples that trained nothing. Vectors stand in an order that was fixed before, from strict to
loose; the walk stops at the first that fails, so no correction for many tests is needed, and all that passed before hold at once.
Net accuracy is not what is bounded: a small network that happens to win as often as it loses would pass, and lose on other data.

Source: Angelopoulos et al., Learn then Test (arXiv 2110.01052), section 4, fixed sequence testing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgekit.build.ladder.bounds import CONFIDENCE, harm_bound

__all__ = ["FLOORS", "Calibrated", "Trials", "calibrate", "calibrate_floors", "expected_cost", "stops"]

FLOORS = {"accurate": 0.5, "balanced": 1.0, "fast": 2.0}
"""Floor -> its share of the points that may be lost."""


@dataclass(frozen=True, slots=True)
class Trials:
    """What each rung says to the same inputs.

    Attributes:
        margins: (n, rungs - 1) float64, best minus second logit of all rungs but the last.
        right: (n, rungs) bool: whether a rung's answer is the label; without labels, whether it is the last rung's answer.
        labelled: which of both.
    """

    margins: np.ndarray
    right: np.ndarray
    labelled: bool = True

    def __post_init__(self) -> None:
        """Shapes must fit."""
        if self.right.ndim != 2 or self.margins.shape != (self.right.shape[0], self.right.shape[1] - 1):
            raise ValueError(f"margins {self.margins.shape} do not belong to answers {self.right.shape}")

    def __len__(self) -> int:
        """Inputs."""
        return len(self.right)

    def harmful(self, stopped: np.ndarray) -> np.ndarray:
        """(n,) index of the rung that answers -> (n,) bool: the last rung is right, and that one is not."""
        return self.right[:, -1] & ~self.right[np.arange(len(self)), stopped]

    @staticmethod
    def of(logits: Sequence[np.ndarray], labels: np.ndarray | None) -> "Trials":
        """(n, classes) of each rung, integer or float, and (n,) labels if there are any."""
        wide = [np.asarray(each, np.float64) for each in logits]
        top = [np.sort(each, axis=1)[:, -2:] if each.shape[1] > 1 else np.zeros((len(each), 2)) for each in wide[:-1]]
        margins = np.stack([each[:, 1] - each[:, 0] for each in top], 1) if top else np.zeros((len(wide[0]), 0))
        answers = np.stack([each.argmax(1) for each in wide], 1)
        wanted = answers[:, -1] if labels is None else labels
        return Trials(margins, answers == np.asarray(wanted)[:, None], labels is not None)


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Margins that keep a promise.

    Attributes:
        margins: of all rungs but the last; an input stops at the first rung whose margin it reaches.
        harmful: inputs of `n` that the last rung answers right and the ladder wrong.
        n: inputs that decided.
        bound_pp: at most so many points of inputs are harmed, at `confidence`.
        limit_pp: what was to be kept.
        confidence: 0..1.
        cost: expected, in the unit of the costs.
        kept: whether the limit is promised; False where even margins that never stop could not be proved.
        tested: vectors of the sequence that were tested.
    """

    margins: tuple[float, ...]
    harmful: int
    n: int
    bound_pp: float
    limit_pp: float
    confidence: float
    cost: float
    kept: bool
    tested: int


def stops(margins: np.ndarray, least: Sequence[float]) -> np.ndarray:
    """(n, rungs - 1) margins and what is enough for each rung -> (n,) index of the rung that answers."""
    enough = margins >= np.asarray(least, np.float64)
    return np.where(enough.any(1), enough.argmax(1), margins.shape[1])


def expected_cost(stopped: np.ndarray, costs: Sequence[float]) -> float:
    """(n,) indices of rungs and what each rung costs on its own -> mean cost: the rungs before were paid as well."""
    return float(np.cumsum(costs)[stopped].mean())


def calibrate(
    trials: Trials,
    path: Sequence[Sequence[float]],
    costs: Sequence[float],
    *,
    limit_pp: float,
    confidence: float = CONFIDENCE,
) -> Calibrated:
    """The cheapest margins for which at most `limit_pp` points are harmed.

    Args:
        trials: inputs that neither trained a network nor made the path.
        path: vectors from strict to loose; the first should never stop.
        costs: of each rung on its own, the last included, such as ms.
        limit_pp: points of harmful answers, 0..100.
        confidence: of the promise.
    """
    best: Calibrated | None = None
    for tested, vector in enumerate(path, start=1):
        stopped = stops(trials.margins, vector)
        harmful = int(trials.harmful(stopped).sum())
        bound = 100 * harm_bound(harmful, len(trials), confidence)
        cost = expected_cost(stopped, costs)
        found = Calibrated(
            tuple(map(float, vector)),
            harmful,
            len(trials),
            bound,
            limit_pp,
            confidence,
            cost,
            kept=bound <= limit_pp,
            tested=tested,
        )
        if not found.kept:
            # What never stops harms nobody, whatever can be proved of it.
            best = found if best is None else best
            break
        if best is None or found.cost < best.cost:
            best = found
    if best is None:
        raise ValueError("a path has at least one vector")
    return best


def calibrate_floors(
    trials: Trials,
    path: Sequence[Sequence[float]],
    costs: Sequence[float],
    *,
    limit_pp: float,
    confidence: float = CONFIDENCE,
) -> Mapping[str, Calibrated]:
    """Margins of every floor, each held to its own share of the limit.

    Each floor is promised on its own at `confidence`. The tests walk one path with nested limits, so a floor is never looser than
    a faster one; a user of two floors at once has both promises at twice the risk of an error.
    """
    found: dict[str, Calibrated] = {}
    for floor, share in FLOORS.items():
        found[floor] = calibrate(trials, path, costs, limit_pp=share * limit_pp, confidence=confidence)
    return found

"""Which ladder is built: the cheapest that keeps the promise, where it beats the best plain network that keeps it too."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from edgekit.build.ladder.bounds import CONFIDENCE, harm_bound
from edgekit.build.ladder.margins import Calibrated, Trials, calibrate_floors
from edgekit.build.ladder.paths import designed, levels_of, straight
from edgekit.build.ladder.pool import NEVER, Candidate

__all__ = ["Choice", "Measured", "Option", "choose"]

LEAST_GAIN = 0.02
"""Share of the cost that a ladder must save over a plain network: less is lost again in whatever was not measured."""

Logits = Mapping[str, np.ndarray]
"""(n, classes) of the same inputs by rung."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What is known of every rung.

    Attributes:
        logits: on the inputs that decide.
        labels: of them; None decides on agreement with the full network.
        design: the same on inputs that only order margins; they may have trained the network.
        design_labels: of them.
        costs: of each rung on its own, such as CPU ms.
        merged: costs of the rungs of ladders that leave out rungs of another and run their part all the same.
    """

    logits: Logits
    labels: np.ndarray | None
    design: Logits
    design_labels: np.ndarray | None
    costs: Mapping[str, float]
    merged: Mapping[tuple[str, ...], tuple[float, ...]] = field(default_factory=dict)

    def trials(self, rungs: Sequence[str]) -> Trials:
        """Of a ladder, on the inputs that decide."""
        return Trials.of([self.logits[rung] for rung in rungs], self.labels)

    def path(self, rungs: Sequence[str]) -> tuple[tuple[float, ...], ...]:
        """Margins of a ladder from strict to loose, fixed without the inputs that decide."""
        trials = Trials.of([self.design[rung] for rung in rungs], self.design_labels)
        integer = all(self.logits[rung].dtype.kind in "iu" for rung in rungs)
        never = NEVER if integer else float(np.abs(trials.margins).max(initial=1.0)) * 16
        if len(rungs) == 2 and integer:
            return straight([float(level) for level in range(int(NEVER) + 1)])
        levels = [levels_of(trials.margins[:, i], never=never, even=not integer) for i in range(len(rungs) - 1)]
        if len(rungs) == 2:
            return straight(levels[0])
        return designed(trials, levels, self.costs_of(rungs))

    def costs_of(self, rungs: Sequence[str]) -> tuple[float, ...]:
        """Of each rung on its own."""
        return self.merged.get(tuple(rungs)) or tuple(self.costs[rung] for rung in rungs)


@dataclass(frozen=True, slots=True)
class Option:
    """A candidate and what may be promised of it.

    Attributes:
        candidate: the ladder, or a plain network.
        floors: margins of each floor; empty of a plain network.
        cost: expected, at the floor `balanced`.
        harmful: inputs that the full network answers right and this one wrong.
        bound_pp: at most so many points of them, at the confidence of the choice.
        kept: whether that is within the limit.
        why: it was not chosen; empty of the chosen one.
    """

    candidate: Candidate
    floors: Mapping[str, Calibrated]
    cost: float
    harmful: int
    bound_pp: float
    kept: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """What is built, and what it was held against.

    Attributes:
        chosen: of the options.
        static: the cheapest plain network that keeps the promise: the baseline.
        full: the network that all are held against.
        options: all of them, cheapest first, with the reason why each but one was not taken.
        limit_pp: points of harmful answers that are allowed.
        confidence: of the promise, with which any one of the ladders could have been chosen.
        n: inputs that decided.
        labelled: whether they have labels.
    """

    chosen: Option
    static: Option
    full: Option
    options: tuple[Option, ...]
    limit_pp: float
    confidence: float
    n: int
    labelled: bool

    @property
    def margins(self) -> Mapping[str, tuple[float, ...]]:
        """Of each floor, for all rungs but the last; empty of a plain network."""
        return {floor: each.margins for floor, each in self.chosen.floors.items()}


def choose(
    candidates: Sequence[Candidate], measured: Measured, *, full: str, limit_pp: float, confidence: float = CONFIDENCE
) -> Choice:
    """Calibrate every ladder, judge every plain network, take the cheapest that keeps the promise.

    All ladders are tested on the same inputs and one of them is picked, so each is held to its part of the error that is allowed
    (Bonferroni). The plain networks of their first rungs are the loosest margins of the same sequences and cost no test of their
    own.

    Args:
        candidates: ladders and plain networks.
        measured: of their rungs.
        full: the rung whose answers are not to be lost.
        limit_pp: points of harmful answers, 0..100.
        confidence: of the promise.
    """
    ladders = [each for each in candidates if len(each.rungs) > 1]
    each_confidence = 1 - (1 - confidence) / max(len(ladders), 1)
    options = [_ladder(each, measured, limit_pp, each_confidence) for each in ladders]
    options += [_static(each, measured, full, limit_pp, each_confidence) for each in candidates if len(each.rungs) == 1]
    whole = next(option for option in options if option.candidate.rungs == (full,))
    static = min((o for o in options if o.kept and len(o.candidate.rungs) == 1), key=lambda o: o.cost)
    kept = [o for o in options if o.kept and len(o.candidate.rungs) > 1 and o.cost < (1 - LEAST_GAIN) * static.cost]
    # Of equal ones the shortest: a rung that nobody stops at would only be carried along.
    chosen = min(kept, key=lambda o: (round(o.cost, 9), len(o.candidate.rungs)), default=static)
    n = len(next(iter(measured.logits.values())))
    told = tuple(sorted((_told(o, chosen, static) for o in options), key=lambda o: o.cost))
    return Choice(chosen, static, whole, told, limit_pp, confidence, n, measured.labels is not None)


def _ladder(candidate: Candidate, measured: Measured, limit_pp: float, confidence: float) -> Option:
    rungs = candidate.rungs
    floors = calibrate_floors(
        measured.trials(rungs), measured.path(rungs), measured.costs_of(rungs), limit_pp=limit_pp, confidence=confidence
    )
    found = floors["balanced"]
    return Option(candidate, floors, found.cost, found.harmful, found.bound_pp, found.kept)


def _static(candidate: Candidate, measured: Measured, full: str, limit_pp: float, confidence: float) -> Option:
    (rung,) = candidate.rungs
    trials = measured.trials((rung, full))
    harmful = int(trials.harmful(np.zeros(len(trials), np.int64)).sum())
    bound = 100 * harm_bound(harmful, len(trials), confidence)
    # The full network loses nothing against itself, whatever can be proved of it.
    return Option(candidate, {}, measured.costs[rung], harmful, bound, kept=rung == full or bound <= limit_pp)


def _told(option: Option, chosen: Option, static: Option) -> Option:
    if option is chosen:
        return option
    if not option.kept:
        return replace(option, why=f"may harm {option.bound_pp:.2f} points")
    if len(option.candidate.rungs) > 1 and option.cost >= (1 - LEAST_GAIN) * static.cost:
        return replace(option, why=f"saves nothing over {static.candidate.name}")
    return replace(option, why=f"{option.cost / chosen.cost:.2f} times the cost")

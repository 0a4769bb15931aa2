"""The guard: how much of the metric INT8 costs is proved on the exported payloads; what fails is repaired, cheapest first.

Every attempt is a bundle in the store: quantized by one recipe, lowered for every engine, run by each on examples kept for
decisions. The first attempt whose payloads all keep the promise is taken. Examples to report on are not looked at.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from edgekit.bench.promise import Promise, least_photos
from edgekit.build.chains import Bundled
from edgekit.build.compression import Compression
from edgekit.build.outcome import Attempt, Guarded
from edgekit.build.pipeline import Event, Observe
from edgekit.build.preparing import Walk
from edgekit.build.recipe import Recipe
from edgekit.build.repairs import NothingToTry, Repair, Step
from edgekit.build.sensitivity_rows import Sensitivity
from edgekit.spec.errors import GoalError, InputError

__all__ = ["Subject", "Verdict", "check_enough", "guard"]


class Subject(Protocol):
    """A float network with its data, as the guard sees it.

    Attributes:
        metric: `top-1`, or `agreement with float` without labels.
    """

    metric: str

    def repairs(self, walk: Walk) -> tuple[tuple[str, Step], ...]:
        """Names and steps, in the order of what they cost to build and to run."""
        ...

    def attempt(self, repair: Repair, walk: Walk) -> tuple[Bundled, Mapping[str, Promise]]:
        """A bundle made in this way, and what may be promised of each INT8 payload by the examples to decide on.

        Raises:
            GoalError: it gave no bundle, or one whose payloads disagree.
        """
        ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the guard gives.

    Attributes:
        guarded: how it went.
        made: the bundle of the chosen attempt.
        sensitivities: of every layer, if a repair asked for them.
    """

    guarded: Guarded
    made: Bundled
    sensitivities: tuple[Sensitivity, ...]


class _OutOfTimeError(GoalError):
    """The budget is spent in the middle of a repair; what it finished stays in the store."""


@dataclass(slots=True)
class _Clock:
    """Ends a repair when the budget is spent; the first attempt is never ended."""

    deadline: float
    armed: bool = False

    def watch(self, observe: Observe) -> Observe:
        def told(event: Event) -> None:
            observe(event)
            if self.armed and event.kind == "progress" and time.monotonic() > self.deadline:
                raise _OutOfTimeError("the time budget is spent", where=event.stage, code="time-budget")

        return told


@dataclass(frozen=True, slots=True)
class _Tried:
    attempt: Attempt
    recipe: Recipe
    made: Bundled | None

    @property
    def bound_pp(self) -> float:
        worst = self.attempt.worst
        return float("inf") if worst is None else worst.bound_pp


def check_enough(tune: int, max_drop_pp: float, *, place: Path) -> None:
    """Refuse a promise that so few examples to decide on cannot prove, before anything slow.

    Raises:
        InputError: `data-few`.
    """
    needed = least_photos(max_drop_pp)
    if tune < needed:
        raise InputError(
            f"{tune} examples to decide on cannot prove a drop of at most {max_drop_pp:g} points, even if INT8 never differs: "
            f"at least {needed} are needed",
            where=str(place),
            fix="give more data, or raise --max-drop",
            code="data-few",
        )


def guard(subject: Subject, wish: Compression, *, walk_with: Callable[[Observe], Walk], observe: Observe) -> Verdict:
    """Attempt after attempt until one keeps the promise, nothing is left to try, or the time budget is spent.

    Args:
        subject: what is guarded.
        wish: holds the goal and the time budget.
        walk_with: a walk that tells an observer.
        observe: told of every stage, and of every attempt by an event of kind `told`.

    Raises:
        GoalError: not even the first attempt gave a bundle.
    """
    if wish.max_drop_pp is None:
        raise ValueError("a guard needs a goal")
    begun = time.monotonic()
    clock = _Clock(begun + 60 * wish.time_budget_min)
    walk = walk_with(clock.watch(observe))
    tried: list[_Tried] = []
    sensitivities: tuple[Sensitivity, ...] = ()
    late = False
    for name, step in subject.repairs(walk):
        if late or any(t.attempt.kept for t in tried):
            break
        start = time.monotonic()
        late = bool(tried) and start > clock.deadline
        try:
            if not late:
                repair = step(min(tried, key=lambda t: t.bound_pp).recipe if tried else Recipe())
                sensitivities = repair.sensitivities or sensitivities
                made, found = subject.attempt(repair, walk)
                tried.append(_tried(repair, made, found, max_drop_pp=wish.max_drop_pp, before=tried, start=start))
        except NothingToTry:
            continue
        except _OutOfTimeError:
            late = True
        except GoalError as error:
            if not tried:
                raise
            tried.append(_Tried(Attempt(name, "", {}, False, None, time.monotonic() - start, error.what), Recipe(), None))
        if not late:
            observe(Event("told", "guard", len(tried) - 1, len(tried), note=_sentence(tried[-1].attempt)))
            clock.armed = True
    best = next((t for t in tried if t.attempt.kept), min(tried, key=lambda t: t.bound_pp))
    if best.made is None:
        raise ValueError("the first attempt gives a bundle or an error")
    attempts = tuple(t.attempt for t in tried)
    guarded = Guarded(wish.max_drop_pp, subject.metric, attempts, best.attempt, time.monotonic() - begun, late)
    return Verdict(guarded, best.made, sensitivities)


def _tried(
    repair: Repair, made: Bundled, found: Mapping[str, Promise], *, max_drop_pp: float, before: list[_Tried], start: float
) -> _Tried:
    kept = all(each.keeps(max_drop_pp) for each in found.values())
    attempt = Attempt(repair.name, repair.what, found, kept, None, time.monotonic() - start)
    drops = [t.attempt.worst.drop_pp for t in before if t.attempt.worst]
    if drops and attempt.worst:
        attempt = replace(attempt, gained_pp=min(drops) - attempt.worst.drop_pp)
    return _Tried(attempt, repair.recipe or Recipe(), made)


def _sentence(attempt: Attempt) -> str:
    worst = attempt.worst
    if worst is None:
        return f"{attempt.name}: no bundle: {attempt.why_not}"
    gained = "" if attempt.gained_pp is None else f", {attempt.gained_pp:+.2f} gained"
    return (
        f"{attempt.name}: drop {worst.drop_pp:.2f} points, at most {worst.bound_pp:.2f} (95 %, {worst.n} examples){gained}: "
        f"{'kept' if attempt.kept else 'not proved'}"
    )

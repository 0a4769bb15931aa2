"""The ladder: run the first rung; where it is not sure enough, climb.

Early exit, adaptive resolution and small-to-large routing are this one loop. A rung either starts again from the input or
continues with the features of the rung before.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from edgekit.runtime.engines import Tensor
from edgekit.runtime.results import CEILING, LAST, MARGIN, RungRun
from edgekit.spec.errors import BundleError, InputError, UnknownName
from edgekit.spec.manifest import Rung
from edgekit.spec.rungs import FLOORS

__all__ = ["Ask", "Input", "Outcome", "Step", "check_ask", "climb", "climb_all", "margin_of"]


def _nothing() -> None:
    """Do nothing."""


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """A rung that can be run: `run` takes the input's tensors or the features, and gives logits first, then features."""

    rung: Rung
    run: Callable[..., tuple[Tensor, ...]]


@dataclasses.dataclass(frozen=True, slots=True)
class Input:
    """What is to be answered.

    Attributes:
        steps: the rungs in order.
        prepare: the tensors of a rung that starts from the input.
        behind: tensors that a rung takes behind its features, such as the mask of a text.
        begin: called before the first rung; its time counts, but for no rung.
        end: called when there is an answer, or an error.
        used_ms: time that it took before the climb.
        expected_ms: what a rung probably takes, by name; 0 of those that are not there.
    """

    steps: Sequence[Step]
    prepare: Callable[[Rung], tuple[Tensor, ...]]
    behind: tuple[Tensor, ...] = ()
    begin: Callable[[], None] = _nothing
    end: Callable[[], None] = _nothing
    used_ms: float = 0.0
    expected_ms: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def through(self) -> "Input":
        """The same, but no rung stops before the last."""
        steps = [Step(dataclasses.replace(step.rung, min_margin=math.inf, margins=None), step.run) for step in self.steps]
        return dataclasses.replace(self, steps=steps)


@dataclasses.dataclass(frozen=True, slots=True)
class Ask:
    """How sure an answer must be, and how long it may take.

    Attributes:
        floor: of `FLOORS`.
        ceiling_ms: no rung is begun that would probably end later; the first one always runs. None without.
        clock: seconds.
    """

    floor: str = "balanced"
    ceiling_ms: float | None = None
    clock: Callable[[], float] = time.perf_counter


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """Where a climb ended.

    Attributes:
        index: of the rung.
        outputs: its own.
        margin: between its two best logits.
        rungs: all that ran, in order.
        stopped_by: `margin`, `last` or `ceiling`.
    """

    index: int
    outputs: tuple[Tensor, ...]
    margin: float
    rungs: tuple[RungRun, ...]
    stopped_by: str


def margin_of(logits: Tensor) -> float:
    """(classes,) or (1, classes) -> best minus second logit; integers in exact steps, 0 where there is only one class."""
    flat = logits.reshape(-1)
    if flat.size < 2:
        return 0.0
    second, best = np.partition(flat, flat.size - 2)[-2:].tolist()
    # As Python numbers: the difference of two int8 may not fit in int8.
    return float(best - second)


def check_ask(floor: str, ceiling_ms: float | None) -> None:
    """Refuse a floor or a ceiling that cannot be.

    Raises:
        UnknownName: no such floor.
        InputError: `argument`.
    """
    if floor not in FLOORS:
        raise UnknownName("floor", str(floor), FLOORS)
    if ceiling_ms is None:
        return
    number = isinstance(ceiling_ms, int | float) and not isinstance(ceiling_ms, bool)
    if not number or math.isnan(ceiling_ms) or ceiling_ms <= 0:
        raise InputError(
            f"ceiling_ms is {ceiling_ms!r}", where="ceiling_ms", fix="give milliseconds above 0, or None", code="argument"
        )


ASK = Ask()


def climb(steps: Sequence[Step], prepare: Callable[[Rung], tuple[Tensor, ...]], ask: Ask = ASK) -> Outcome:
    """Run rungs until one is sure enough, time is up, or the last one has answered; see `climb_all`."""
    return climb_all((Input(steps, prepare),), ask)[0]


def climb_all(inputs: Sequence[Input], ask: Ask = ASK) -> tuple[Outcome, ...]:
    """Every rung runs for all inputs that still wait for an answer, before the next rung runs for any.

    Time is counted for each input alone.

    Raises:
        BundleError: the first rung continues, or a rung continues one that gives no features.
    """
    climbs = [_Climb(each) for each in inputs]
    waiting = climbs
    try:
        while waiting:
            waiting = [each for each in waiting if not each.step(ask)]
    finally:
        for each in waiting:
            each.end()
    return tuple(each.outcome() for each in climbs)


class _Climb:
    """One input on its way up."""

    def __init__(self, given: Input) -> None:
        if not given.steps:
            raise BundleError("the bundle has no rungs", where="rungs", fix="rebuild the bundle", code="bundle-ladder")
        self._given = given
        self._index = -1
        self._outputs: tuple[Tensor, ...] = ()
        self._runs: list[RungRun] = []
        self._used_ms = given.used_ms
        self._stopped_by = ""

    def step(self, ask: Ask) -> bool:
        """Run the next rung; whether its answer is the last."""
        steps = self._given.steps
        self._index += 1
        step = steps[self._index]
        if self._index == 0:
            begun = ask.clock()
            self._given.begin()
            self._used_ms += (ask.clock() - begun) * 1e3
        begun = ask.clock()
        self._outputs = step.run(*self._inputs(step.rung))
        latency_ms = (ask.clock() - begun) * 1e3
        self._used_ms += latency_ms
        margin = margin_of(self._outputs[0])
        self._runs.append(RungRun(step.rung.name, margin, latency_ms))
        if self._index == len(steps) - 1:
            self._stopped_by = LAST
        elif margin >= step.rung.enough(ask.floor):
            self._stopped_by = MARGIN
        elif ask.ceiling_ms is not None and self._used_ms + self._expected_ms(steps[self._index + 1]) > ask.ceiling_ms:
            self._stopped_by = CEILING
        if not self._stopped_by:
            return False
        self.end()
        return True

    def end(self) -> None:
        self._given.end()

    def _expected_ms(self, step: Step) -> float:
        return self._given.expected_ms.get(step.rung.name, 0.0)

    def outcome(self) -> Outcome:
        return Outcome(self._index, self._outputs, self._runs[-1].margin, tuple(self._runs), self._stopped_by)

    def _inputs(self, rung: Rung) -> tuple[Tensor, ...]:
        if not rung.continues:
            return self._given.prepare(rung)
        features = self._outputs[1:]
        if not features:
            raise BundleError(
                f"rung {rung.name!r} continues a rung that gives no features",
                where=f"rungs[{self._index}]",
                fix="rebuild the bundle",
                code="bundle-ladder",
            )
        return (*features, *self._given.behind)

"""A build of early exits of a network that reads text: trained, cut, measured, chosen, then packed alone."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from edgekit.build.artifact import Artifact
from edgekit.build.chains import ENGINE_DISTRIBUTIONS, Bundled
from edgekit.build.finishing import finish
from edgekit.build.ladder.api import ladder_notes, preferred
from edgekit.build.ladder.bounds import CONFIDENCE, most_harmful, refuse_few
from edgekit.build.ladder.choose import Choice, Measured, choose
from edgekit.build.ladder.found import LadderFound
from edgekit.build.ladder.margins import Trials, stops
from edgekit.build.ladder.photos import with_margins
from edgekit.build.ladder.pool import Candidate
from edgekit.build.ladder.summary import summarise
from edgekit.build.ladder.wish import DEFAULT_DROP_PP, Adaptive
from edgekit.build.origin import version_of
from edgekit.build.pipeline import Observe
from edgekit.build.preparing import Walk
from edgekit.build.request import BuildRequest, BuildResult
from edgekit.build.stages.answer_text_rungs import AnswerTextRungs, TimeTextRungs, read_text_rungs, read_text_times
from edgekit.build.stages.lower_text import RUNG, LowerText
from edgekit.build.stages.lower_text_rungs import LowerTextRungs
from edgekit.build.stages.text_exits import TEXT_EXIT_TRAINING, TEXT_EXITS, TrainTextExits
from edgekit.build.store import Store, default_root
from edgekit.build.text.chains import TextChains, text_chains
from edgekit.build.text.exit_places import exit_layers
from edgekit.build.text.rungs import LAST, rung_of
from edgekit.build.text.splits import TextSplits
from edgekit.build.training.plan import TEXT_TRAINING
from edgekit.build.walker import Walker
from edgekit.runtime.verdicts import machine
from edgekit.spec.manifest import Rung

__all__ = ["LadderTexts", "Trial", "build_text_ladder", "ladder_texts"]

DESIGN_TEXTS = 2000
"""Texts to fit that order margins."""

SLOWER = TEXT_EXIT_TRAINING.learning_rate / TEXT_TRAINING.learning_rate


@dataclass(frozen=True, slots=True)
class Trial:
    """Payloads to be measured, by engine: with all exits, and the network as a whole."""

    exits: Mapping[str, Artifact]
    whole: Mapping[str, Artifact]


@dataclass(frozen=True, slots=True)
class LadderTexts:
    """The chains of a ladder, on top of those of a plain build.

    Attributes:
        chains: of the plain build.
        splits: the data.
        wish: where exits sit.
        layers: numbers of the layers that have exits, ascending.
    """

    chains: TextChains
    splits: TextSplits
    wish: Adaptive
    layers: tuple[int, ...]

    @property
    def limit_pp(self) -> float:
        """Points of harmful answers that are allowed."""
        asked = self.chains.request.compression.max_drop_pp
        return DEFAULT_DROP_PP if asked is None else asked

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """All exits, each of them alone, and the plain network."""
        alone = [(layer,) for layer in self.layers] if len(self.layers) > 1 else []
        ladders = [Candidate("exits", (*map(rung_of, some), LAST)) for some in (self.layers, *alone)]
        return (*ladders, Candidate("static", (RUNG,)))

    def check(self) -> None:
        """Refuse what cannot be promised, before anything slow.

        Raises:
            GoalError: `ladder-samples`.
        """
        refuse_few(len(self.splits.open().tune), self.limit_pp, where=str(self.splits.folder.path))

    @property
    def planned(self) -> tuple[str, ...]:
        """What a user should know before anything is built."""
        ladders = [each.name for each in self.candidates if len(each.rungs) > 1]
        n = len(self.splits.open().tune)
        most = max(most_harmful(n, self.limit_pp, 1 - (1 - CONFIDENCE) / len(ladders)), 0)
        return (
            f"ladders that are weighed: {'; '.join(ladders)}; the one chosen, or the plain network, is packed alone",
            f"at most {self.limit_pp:g} points harmful are promised if {most} or fewer of {n} texts are",
        )

    def with_exits(self, checkpoint: Artifact, walk: Walk) -> Artifact:
        """The fitted network with exits, trained together."""
        fit = self.chains.training
        training = replace(fit, learning_rate=fit.learning_rate * SLOWER)
        return walk("student", (TrainTextExits(self.splits, training, tuple(map(str, self.layers)), TEXT_EXITS),), checkpoint)

    def trial(self, checkpoint: Artifact, walk: Walk) -> Trial:
        """Everything that is measured; `checkpoint` has the exits."""
        engines, tokens = self.chains.request.engines, self.chains.tokens
        whole = {e: walk(f"{e}-int8", (LowerText(e, "int8", tokens),), checkpoint) for e in engines}
        return Trial(self._lowered(self.layers, checkpoint, walk), whole)

    def measured(
        self, checkpoint: Artifact, trial: Trial, walk: Walk, *, engine: str
    ) -> tuple[Measured, Mapping[str, Mapping[str, float]]]:
        """Answers of every rung on the texts that decide, and on those that order margins; CPU ms of rungs by payload."""
        here = {**machine(), **{e: version_of(ENGINE_DISTRIBUTIONS.get(e, e)) for e in trial.exits}}
        payloads = (*trial.exits.values(), *trial.whole.values())
        timing = TimeTextRungs(checkpoint, payloads, self.splits, MappingProxyType(here))
        times = read_text_times(walk("ladder", (timing,), payloads[0]).path)
        half = len(trial.exits)
        costs = {f"{e}-int8": {**a, **b} for e, a, b in zip(trial.exits, times[:half], times[half:], strict=True)}
        labels, answers = self._answers(checkpoint, trial.exits[engine], walk, part="tune")
        design_labels, design = self._answers(checkpoint, trial.exits[engine], walk, part="fit", most=DESIGN_TEXTS)
        own = costs[f"{engine}-int8"]
        merged = {c.rungs: self._merged(c.rungs, own) for c in self.candidates if len(c.rungs) > 1}
        return Measured(answers, labels, design, design_labels, own, merged), costs

    def choose(self, measured: Measured) -> Choice:
        """See `choose.choose`; the full network is the whole one."""
        return choose(self.candidates, measured, full=RUNG, limit_pp=self.limit_pp)

    def final(self, choice: Choice, fitted: Artifact, checkpoint: Artifact, walk: Walk) -> tuple[Bundled, Artifact]:
        """The chosen ladder alone, and the float network behind it; without a ladder what a plain build gives."""
        names = choice.chosen.candidate.rungs
        if len(names) == 1:
            return self.chains.bundle(fitted, walk), fitted
        rungs = with_margins([Rung(name, continues=i > 0) for i, name in enumerate(names)], choice)
        some = tuple(layer for layer in self.layers if rung_of(layer) in names)
        payloads = tuple(self._lowered(some, checkpoint, walk).values())
        told = {"ladder": choice.chosen.candidate.name, "harmful_limit_pp": f"{choice.limit_pp:g}"}
        return self.chains.pack(payloads, checkpoint, walk, rungs=rungs, told=told), checkpoint

    def report(
        self,
        choice: Choice,
        measured: Measured,
        costs: Mapping[str, Mapping[str, float]],
        checkpoint: Artifact,
        trial: Trial,
        walk: Walk,
        *,
        engine: str,
    ) -> LadderFound:
        """The chosen ladder on the texts to report on, which decided nothing."""
        names = choice.chosen.candidate.rungs
        if not choice.margins:
            return LadderFound(choice, engine, costs, MappingProxyType({}), 1.0)
        trials = {}
        for each, payload in trial.exits.items():
            labels, answers = self._answers(checkpoint, payload, walk, part="report")
            trials[each] = Trials.of([answers[name] for name in names], labels)
        found = {
            floor: summarise(trials[engine], names, margins, measured.costs_of(names))
            for floor, margins in choice.margins.items()
        }
        stopped = np.stack([stops(each.margins, choice.margins["balanced"]) for each in trials.values()])
        return LadderFound(choice, engine, costs, MappingProxyType(found), float((stopped == stopped[0]).all(0).mean()))

    def _lowered(self, layers: Sequence[int], checkpoint: Artifact, walk: Walk) -> dict[str, Artifact]:
        after = tuple(map(str, layers))
        engines, tokens = self.chains.request.engines, self.chains.tokens
        return {e: walk(f"{e}-int8", (LowerTextRungs(e, tokens, after),), checkpoint) for e in engines}

    def _answers(
        self, checkpoint: Artifact, payload: Artifact, walk: Walk, *, part: str, most: int = 0
    ) -> tuple[np.ndarray | None, dict[str, np.ndarray]]:
        """Labels, and logits by rung; segments together are the whole network to the bit, so its answers are the last rung's."""
        made = walk("ladder", (AnswerTextRungs(checkpoint, self.splits, part, most),), payload)
        labels, logits = read_text_rungs(made.path)
        return labels, {**logits, RUNG: logits[LAST]}

    def _merged(self, rungs: Sequence[str], costs: Mapping[str, float]) -> tuple[float, ...]:
        """What rungs cost that run the layers of exits left out as well; the heads of those are counted, which is little."""
        found, sum_ms = [], 0.0
        for name in (*map(rung_of, self.layers), LAST):
            sum_ms += costs[name]
            if name in rungs:
                found.append(sum_ms)
                sum_ms = 0.0
        return tuple(found)


def ladder_texts(chains: TextChains) -> LadderTexts:
    """The chains of a ladder, checked before anything slow.

    Raises:
        GoalError: `ladder-samples`.
        InputError: `exit-layer`.
    """
    wish = chains.request.adaptive
    if chains.splits is None or wish is None:
        raise ValueError("a ladder needs a wish and data in parts")
    layers = exit_layers(chains.student.config().layers, wish.exits_after)
    ladder = LadderTexts(chains, chains.splits, wish, layers)
    ladder.check()
    return ladder


def build_text_ladder(request: BuildRequest, *, observe: Observe = lambda event: None) -> BuildResult:
    """Build, measure, choose, prove and deliver; `observe` is told of every stage.

    Raises:
        InputError: model, weights, data or the wish for a ladder are wrong.
        GoalError: `ladder-samples`, or a gate is not met.
        SetupError: something is not installed, or cannot be written.
    """
    from edgekit.build.text.api import goal_notes, graded

    begun = time.monotonic()
    chains = text_chains(request)
    ladder = ladder_texts(chains)
    walker = Walker(Store(request.store or default_root()), observe)
    walk = walker.telling(observe)
    fitted = chains.prepare(walk)
    checkpoint = ladder.with_exits(fitted, walk)
    networks = (*graded(chains, fitted, walk, name="before exits"), *graded(chains, checkpoint, walk))
    trial = ladder.trial(checkpoint, walk)
    engine = preferred(request)
    measured, costs = ladder.measured(checkpoint, trial, walk, engine=engine)
    choice = ladder.choose(measured)
    made, behind = ladder.final(choice, fitted, checkpoint, walk)
    report = chains.judge(behind, made, walk)
    found = ladder.report(choice, measured, costs, checkpoint, trial, walk, engine=engine)
    return finish(
        request,
        made,
        report.path,
        walker=walker,
        begun=begun,
        notes=[*chains.notes, *goal_notes(request), *ladder_notes(found)],
        networks=networks,
        verdict=None,
        sensitivities=(),
        with_findings=True,
        ladder=found,
    )

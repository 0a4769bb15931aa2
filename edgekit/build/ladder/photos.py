"""A build of a ladder from photos: every piece is quantized and measured once, then one ladder is chosen and packed."""

from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from edgekit.build.artifact import Artifact
from edgekit.build.chains import Bundled, Chains
from edgekit.build.facts import Facts
from edgekit.build.ladder.bounds import refuse_few
from edgekit.build.ladder.choose import Choice, Measured, choose
from edgekit.build.ladder.found import LadderFound
from edgekit.build.ladder.margins import Trials, stops
from edgekit.build.ladder.planning import UNPLACED, is_planned, known_facts
from edgekit.build.ladder.pool import Candidate, Piece, Pool
from edgekit.build.ladder.summary import summarise
from edgekit.build.ladder.wish import DEFAULT_DROP_PP, Adaptive
from edgekit.build.learners import learner_of
from edgekit.build.network import Network
from edgekit.build.preparing import SOURCE, Walk, training_of
from edgekit.build.recipe import Recipe
from edgekit.build.splits import Splits
from edgekit.build.stages.answer_rungs import AnswerRungs, TimeRungs, read_rung_answers, read_rung_times
from edgekit.build.stages.exits import TrainExits
from edgekit.build.stages.export import Export
from edgekit.build.stages.fit import Fit
from edgekit.build.stages.load import Load
from edgekit.build.stages.lower_rungs import LowerRungs, RungPart
from edgekit.build.stages.place_exits import PlaceExits, read_places
from edgekit.build.stages.quantize import Quantize
from edgekit.build.stages.recalibrate import Recalibrate
from edgekit.build.training.plan import EXIT_TRAINING, Exits
from edgekit.runtime.verdicts import machine
from edgekit.spec.errors import InputError
from edgekit.spec.manifest import Margins, Rung

__all__ = ["LadderPhotos", "resolutions_of"]

JOINT_RATE = 2e-4
"""A fifth of a fit's: the last answer has to stay as good as it is."""

BEST_SHARE = 0.57
"""Of the full side: 128 px of 224 take 0.4 of the time."""


@dataclass(frozen=True, slots=True)
class LadderPhotos:
    """The chains of a ladder, on top of those of a plain build.

    Attributes:
        chains: of the plain build.
        splits: the data.
        wish: which rungs.
    """

    chains: Chains
    splits: Splits
    wish: Adaptive

    @property
    def limit_pp(self) -> float:
        """Points of harmful answers that are allowed."""
        asked = self.chains.request.compression.max_drop_pp
        return DEFAULT_DROP_PP if asked is None else asked

    def check(self, *, tune: int) -> None:
        """Refuse what cannot be promised, before anything slow.

        Raises:
            GoalError: `ladder-samples`.
            InputError: `ladder-precision`.
        """
        if self.chains.request.precisions != ("int8",):
            raise InputError(
                f"a ladder of photos is INT8, not {', '.join(self.chains.request.precisions)}: its margins are integer steps",
                where="--adaptive",
                fix="leave --precision out, or leave --adaptive out",
                code="ladder-precision",
            )
        refuse_few(tune, self.limit_pp, where=str(self.splits.folder.path))

    def with_exits(self, checkpoint: Artifact, exits: tuple[str, ...], walk: Walk) -> Artifact:
        """The network with exits, if any are wished for."""
        return walk("student", self._train_exits(self.chains.network, exits), checkpoint) if exits else checkpoint

    def pool(self, checkpoint: Artifact, exits: tuple[str, ...], walk: Walk) -> Pool:
        """Every piece, quantized, and the ladders that they allow; `checkpoint` has the exits."""
        network, facts = self.chains.network, known_facts(checkpoint, self.chains.facts)
        pieces: list[Piece] = []
        ladders: list[Candidate] = []
        full = f"px{facts.resolution_px}"
        for side in self.sides():
            made = walk(f"{side} px", (Recalibrate(network, self.splits, side),), checkpoint)
            pieces.append(self._plain(made, network, f"px{side}", facts.at(side), walk, f"{side} px"))
            ladders.append(Candidate("resolution", (f"px{side}", full)))
        program = self.chains.export(checkpoint, walk)
        staged = walk("int8", (Export(network, staged=True),), checkpoint) if exits else program
        whole = walk("int8", (self._quantize,), staged)
        pieces.append(_piece(whole, (full,), facts, program))
        if exits:
            names = (*(f"exit{i + 1}" for i in range(len(exits))), "last")
            pieces.append(_piece(whole, names, facts, program))
            ladders.append(Candidate("exits", names))
        statics = [Candidate("static", piece.part.rungs) for piece in pieces if len(piece.part.rungs) == 1]
        if self.wish.route_to is not None:
            larger, name = self._larger(facts, walk)
            pieces.append(larger)
            ladders = [Candidate("routing", (full, name))]
            statics = [Candidate("static", (full,)), Candidate("static", (name,))]
        return Pool(tuple(pieces), (*ladders, *statics))

    def sides(self) -> tuple[int, ...]:
        """Sides below the full one, ascending."""
        if not self.wish.wants("resolution"):
            return ()
        return resolutions_of(self.chains, self.wish)

    def exits(self, checkpoint: Artifact, walk: Walk) -> tuple[str, ...]:
        """Modules behind which exits sit: those asked for, those of the SPEC, else where measured time says that they pay."""
        if not self.wish.wants("exits"):
            return ()
        spec = self.chains.request.model.spec
        known = self.wish.exits_after or (spec.exits_after if spec is not None else ())
        if known:
            return known
        place = PlaceExits(self.chains.network, machine()["facts"])
        found = walk("exits", (place,), checkpoint)
        return UNPLACED if is_planned(found) else read_places(found.path)

    def trial(self, pool: Pool, program: Artifact, walk: Walk) -> Bundled:
        """All pieces in one bundle, to be measured."""
        return self._bundle(pool.parts, pool.rungs, program, walk)

    def measured(self, pool: Pool, trial: Bundled, walk: Walk, *, engine: str) -> tuple[Measured, dict[str, dict[str, float]]]:
        """Answers of every rung on the photos that decide, and on those that order margins; costs on this machine."""
        here = MappingProxyType(self.chains.here())
        times = read_rung_times(walk("ladder", (TimeRungs(self.splits, here),), trial.bundle).path)
        labels, answers = read_rung_answers(walk("ladder", (AnswerRungs(self.splits, "tune"),), trial.bundle).path)
        payload = f"{engine}-int8"
        design, design_labels = answers, labels
        if any(len(each.rungs) > 2 for each in pool.candidates):
            design_labels, design = read_rung_answers(walk("ladder", (AnswerRungs(self.splits, "fit"),), trial.bundle).path)
        found = Measured(answers[payload], labels, design[payload], design_labels, times[payload])
        return found, {name: dict(rungs) for name, rungs in times.items()}

    def final(self, pool: Pool, choice: Choice, program: Artifact, walk: Walk) -> Bundled:
        """The chosen ladder alone."""
        pieces = pool.needed(choice.chosen.candidate.rungs)
        rungs = with_margins([rung for piece in pieces for rung in piece.rungs], choice)
        told = {"ladder": choice.chosen.candidate.name, "harmful_limit_pp": f"{choice.limit_pp:g}"}
        return self._bundle(tuple(piece.part for piece in pieces), rungs, program, walk, **told)

    def report(self, pool: Pool, choice: Choice, trial: Bundled, walk: Walk, *, engine: str) -> LadderFound:
        """The chosen ladder on the photos to report on, which decided nothing."""
        _, times = self.measured(pool, trial, walk, engine=engine)
        labels, answers = read_rung_answers(walk("ladder", (AnswerRungs(self.splits, "report"),), trial.bundle).path)
        rungs = choice.chosen.candidate.rungs
        found, stopped = {}, []
        for floor, margins in choice.margins.items():
            costs = [times[f"{engine}-int8"][rung] for rung in rungs]
            found[floor] = summarise(Trials.of([answers[f"{engine}-int8"][r] for r in rungs], labels), rungs, margins, costs)
        for logits in answers.values():
            if choice.margins:
                trials = Trials.of([logits[rung] for rung in rungs], labels)
                stopped.append(stops(trials.margins, choice.margins["balanced"]))
        same = (
            float(np.mean([np.all([s[i] == stopped[0][i] for s in stopped]) for i in range(len(stopped[0]))])) if stopped else 1.0
        )
        return LadderFound(choice, engine, times, MappingProxyType(found), same)

    def choose(self, pool: Pool, measured: Measured) -> Choice:
        """See `choose.choose`; the full network is the last piece's."""
        full = pool.candidates[-1].rungs[0]
        return choose(pool.candidates, measured, full=full, limit_pp=self.limit_pp)

    def _bundle(
        self,
        parts: tuple[RungPart, ...],
        rungs: tuple[Rung, ...],
        program: Artifact,
        walk: Walk,
        **told: str,
    ) -> Bundled:
        request = self.chains.request
        payloads = []
        for engine in request.engines:
            lower = LowerRungs(engine, request.target.onnx_activation_dtype, parts)
            payloads.append(walk(f"{engine}-int8", (lower,), parts[0].quantized))
        pack = self.chains.pack(tuple(payloads), parts[-1].quantized, rungs=rungs, told=told)
        return Bundled(walk("bundle", (pack,), program), None)

    def _train_exits(self, network: Network, after: tuple[str, ...]) -> tuple[TrainExits, ...]:
        """The heads alone first, in any case: joint training that begins with random heads shakes a network that was fitted."""
        request = self.chains.request
        alone = replace(EXIT_TRAINING, seed=request.seed, device=self.chains.device)
        stages = [TrainExits(network, self.splits, alone, after, Exits())]
        if self.wish.joint:
            together = replace(training_of(request.compression, request.seed, self.chains.device), learning_rate=JOINT_RATE)
            stages.append(TrainExits(network, self.splits, together, after, Exits(joint=True)))
        return tuple(stages)

    @property
    def _quantize(self) -> Quantize:
        return Quantize(self.chains.photos, Recipe())

    def _plain(self, checkpoint: Artifact, network: Network, rung: str, facts: Facts, walk: Walk, name: str) -> Piece:
        """A network without exits."""
        program = walk(name, (Export(network),), checkpoint)
        return _piece(walk(name, (self._quantize,), program), (rung,), facts, program)

    def _larger(self, facts: Facts, walk: Walk) -> tuple[Piece, str]:
        """The network that is asked where the small one is not sure."""
        request, wanted = self.chains.request, self.wish.route_to
        if wanted is None:
            raise ValueError("nothing is routed to")
        learner = learner_of(wanted.model, wanted.weights, replace(request, resolution_px=None), self.splits.classes, asked=False)
        other = learner.facts
        if (other.filter, other.mean, other.std) != (facts.filter, facts.mean, facts.std):
            raise InputError(
                f"{other.name} sees photos prepared in another way than {facts.name}: {other.filter}, mean {other.mean}",
                where="--route-to",
                fix="route to a network of the same family",
                code="route-preprocess",
            )
        checkpoint = walk("larger", (Load(learner.network, learner.facts, settles=not learner.fits),), SOURCE)
        if learner.fits:
            training = training_of(request.compression, request.seed, self.chains.device)
            checkpoint = walk("larger", (Fit(learner.network, self.splits, training),), checkpoint)
        known = known_facts(checkpoint, learner.facts)
        if not is_planned(checkpoint) and known.names != facts.names:
            raise InputError(
                f"{known.name} tells {known.classes} classes apart that are not those of {facts.name}",
                where="--route-to",
                fix="fit both to the same data",
                code="route-classes",
            )
        return self._plain(checkpoint, learner.network, known.name, known, walk, "larger"), known.name


def resolutions_of(chains: Chains, wish: Adaptive) -> tuple[int, ...]:
    """Sides to try below the full one, ascending.

    Of a SPEC's at most two are taken, near what paid on EfficientNet-Lite0: every ladder that is tried costs part of the promise.
    """
    full = chains.facts.resolution_px
    if wish.resolutions_px:
        return tuple(sorted(side for side in wish.resolutions_px if side < full))
    spec = chains.request.model.spec
    known = [side for side in (spec.resolutions_px if spec is not None else ()) if side < full]
    return tuple(sorted(sorted(known, key=lambda side: abs(side / full - BEST_SHARE))[:2]))


def with_margins(rungs: list[Rung], choice: Choice) -> tuple[Rung, ...]:
    """The rungs of a ladder, with what was chosen for each floor; the last answers in any case."""
    last = len(rungs) - 1
    if not last:
        return (replace(rungs[0], min_margin=0),)
    margins = choice.margins
    return tuple(
        replace(
            rung,
            min_margin=0 if i == last else margins["balanced"][i],
            margins=None if i == last else Margins(margins["accurate"][i], margins["fast"][i]),
        )
        for i, rung in enumerate(rungs)
    )


def _piece(quantized: Artifact, rungs: tuple[str, ...], facts: Facts, program: Artifact) -> Piece:
    return Piece(RungPart(quantized, rungs), facts.resolution_px, facts.resize_px, program)

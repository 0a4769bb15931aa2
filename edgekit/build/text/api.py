"""The walk of a build whose network reads text: from a request to a bundle."""

import time

import numpy as np

from edgekit.bench.stats import share_interval
from edgekit.build.artifact import Artifact
from edgekit.build.chains import PLACEHOLDER
from edgekit.build.finishing import check_guardable, finish
from edgekit.build.guard import Verdict, guard
from edgekit.build.outcome import GradedNetwork
from edgekit.build.pipeline import Observe, Stage, check
from edgekit.build.preparing import SOURCE, Walk
from edgekit.build.request import BuildRequest, BuildResult, FitResult, Plan, PlannedChain, PlannedStage
from edgekit.build.sensitivity_rows import Sensitivity, read_sensitivities
from edgekit.build.stages.answer import FLOAT, read_answers
from edgekit.build.stages.answer_text import AnswerText
from edgekit.build.stages.sense_text import SenseText
from edgekit.build.store import Store, default_root
from edgekit.build.text.chains import TextChains, text_chains
from edgekit.build.text.facts import read_text_facts
from edgekit.build.text.guarded import GuardedTexts
from edgekit.build.walker import Walker
from edgekit.spec.errors import InputError

__all__ = ["build_text", "fit_text", "goal_notes", "graded", "plan_text"]


def plan_text(request: BuildRequest) -> Plan:
    """What `build_text` would do, without doing it."""
    chains = text_chains(request)
    _check(chains)
    planned: dict[str, tuple[PlannedStage, ...]] = {}

    def note(name: str, stages: tuple[Stage, ...], source: Artifact) -> Artifact:
        check(stages, source.kind)
        planned[name] = (*planned.get(name, ()), *(PlannedStage(s.name, s.accepts, s.returns, {}) for s in stages))
        return Artifact(stages[-1].returns, PLACEHOLDER, SOURCE.path)

    notes = chains.notes
    checkpoint = chains.prepare(note)
    if request.adaptive is not None:
        from edgekit.build.text.ladder import ladder_texts

        ladder = ladder_texts(chains)
        ladder.trial(ladder.with_exits(checkpoint, note), note)
        notes = (*notes, *ladder.planned)
    else:
        chains.judge(checkpoint, chains.bundle(checkpoint, note), note)
    rows = tuple(PlannedChain(name, stages) for name, stages in planned.items())
    return Plan(request.model.name, request.target.name, request.out, rows, notes)


def build_text(request: BuildRequest, *, observe: Observe = lambda event: None) -> BuildResult:
    """Build, prove and deliver a bundle; `observe` is told of every stage.

    Raises:
        InputError: model, weights or data are wrong.
        GoalError: a gate or goal is not met. Where it is how much may be lost, the best bundle was delivered all the same.
        SetupError: something is not installed, or cannot be written.
    """
    if request.adaptive is not None:
        from edgekit.build.text.ladder import build_text_ladder

        return build_text_ladder(request, observe=observe)
    begun = time.monotonic()
    chains = text_chains(request)
    _check(chains)
    walker = Walker(Store(request.store or default_root()), observe)
    walk = walker.telling(observe)
    checkpoint = chains.prepare(walk)
    facts = read_text_facts(checkpoint.path)
    notes = list(chains.notes)
    if not facts.weights_sha256:
        notes.append("random weights: the bundle proves the path to the device, its answers mean nothing")
    verdict = None
    if request.compression.max_drop_pp is not None and chains.splits is not None:
        labelled = bool(facts.classes) and set(chains.splits.classes) <= set(facts.names)  # as `texts_of` decides
        subject = GuardedTexts(chains, chains.splits, checkpoint, "top-1" if labelled else "agreement with float")
        verdict = guard(subject, request.compression, walk_with=walker.telling, observe=observe)
    made = chains.bundle(checkpoint, walk) if verdict is None else verdict.made
    report = chains.judge(checkpoint, made, walk)
    notes += goal_notes(request)
    return finish(
        request,
        made,
        report.path,
        walker=walker,
        begun=begun,
        notes=notes,
        networks=graded(chains, checkpoint, walk),
        verdict=verdict,
        sensitivities=_sensitivities(chains, checkpoint, verdict, walk),
        with_findings=chains.splits is not None,
    )


def fit_text(request: BuildRequest, *, observe: Observe = lambda event: None) -> FitResult:
    """Only the float network: fitted and taught as wished -> a checkpoint that `--weights` takes.

    Raises:
        InputError: model, weights or data are wrong, or there is nothing to train.
        SetupError: something is not installed, or cannot be written.
    """
    from edgekit.build.fitting import deliver_checkpoint

    begun = time.monotonic()
    chains = text_chains(request)
    if not chains.fits or chains.splits is None:
        raise InputError(
            "nothing would be trained: the network tells classes apart already",
            where="--data",
            fix="add --epochs N or --teacher NAME",
            code="nothing-to-fit",
        )
    walker = Walker(Store(request.store or default_root()), observe)
    walk = walker.telling(observe)
    checkpoint = chains.prepare(walk)
    networks = graded(chains, checkpoint, walk)
    deliver_checkpoint(checkpoint.path, request.out, splits=chains.splits.folder.digest)
    return FitResult(
        request.out, request.model.name, time.monotonic() - begun, tuple(walker.runs.values()), networks, chains.notes
    )


def _check(chains: TextChains) -> None:
    """What can be refused before anything slow; a ladder has checks of its own."""
    if chains.request.adaptive is None and chains.request.compression.max_drop_pp is not None and chains.splits is not None:
        check_guardable(chains.request, tune=len(chains.splits.open().tune), place=chains.splits.folder.path)


def goal_notes(request: BuildRequest) -> tuple[str, ...]:
    """What was asked for and is not looked at."""
    if request.max_latency_ms is None or request.target.kind == "host":
        return ()
    return ("--max-latency-ms was not checked: what a network that reads text takes on a device is not predicted",)


def graded(chains: TextChains, checkpoint: Artifact, walk: Walk, *, name: str = "network") -> tuple[GradedNetwork, ...]:
    """A float network on texts to report on, where they have its classes."""
    if chains.splits is None:
        return ()
    said = read_answers(walk("float", (AnswerText(chains.splits, "report"),), checkpoint).path)
    if said.labels is None:
        return ()
    right = said.logits[FLOAT].argmax(1) == said.labels
    size, macs = _size(checkpoint, chains.tokens[-1])
    return (GradedNetwork(name, len(right), float(np.mean(right)), share_interval(right), size, macs),)


def _size(checkpoint: Artifact, tokens: int) -> tuple[int, int]:
    """(parameters, multiply-accumulates of linear layers at so many tokens)."""
    from edgekit.build.text.checkpoint import read_text_checkpoint
    from edgekit.build.text.rewrite import rewrite

    module, _, _ = read_text_checkpoint(checkpoint.path)
    linears = rewrite(module).linears()
    macs = sum(layer.weight.numel() * (1 if name in ("pooler", "head") else tokens) for name, layer in linears.items())
    return sum(p.numel() for p in module.parameters()), macs


def _sensitivities(chains: TextChains, checkpoint: Artifact, verdict: Verdict | None, walk: Walk) -> tuple[Sensitivity, ...]:
    """Measured if they were asked for, or if layers have to be named that keep the promise from being kept."""
    lost = verdict is not None and not verdict.guarded.chosen.kept
    if verdict is not None and verdict.sensitivities:
        return verdict.sensitivities
    if not (chains.request.compression.sensitivity or lost):
        return ()
    return read_sensitivities(walk("sensitivity", (SenseText(chains.splits),), checkpoint).path)

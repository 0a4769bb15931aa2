"""The walk of one build: from a request to a bundle. `plan` says what would be done, `build` does it."""

import time
from collections.abc import Mapping

from edgekit.build.artifact import Artifact
from edgekit.build.chains import PLACEHOLDER, Chains, chains_of, shown
from edgekit.build.facts import read_facts
from edgekit.build.finishing import check_guardable, finish
from edgekit.build.fitting import grade_all
from edgekit.build.goal import check_goal, count_macs
from edgekit.build.guard import Verdict, guard
from edgekit.build.guarded_photos import GuardedPhotos
from edgekit.build.pipeline import Observe, Stage, check
from edgekit.build.preparing import SOURCE, Walk
from edgekit.build.recipe import Recipe
from edgekit.build.repairs import ORDER, sense
from edgekit.build.request import BuildRequest, BuildResult, Plan, PlannedChain, PlannedStage
from edgekit.build.sensitivity_rows import Sensitivity
from edgekit.build.stages.export import PROGRAM
from edgekit.build.stages.load import RANDOM
from edgekit.build.store import Store, default_root
from edgekit.build.walker import Walker

__all__ = ["build", "plan"]


def plan(request: BuildRequest) -> Plan:
    """What `build` would do, without doing it: every chain of stages, checked.

    Raises:
        InputError: data or weights cannot be used.
    """
    if request.model.reads_text:
        from edgekit.build.text.api import plan_text

        return plan_text(request)
    planned: dict[str, tuple[PlannedStage, ...]] = {}

    def note(name: str, stages: tuple[Stage, ...], source: Artifact) -> Artifact:
        check(stages, source.kind)
        told = tuple(PlannedStage(s.name, s.accepts, s.returns, shown(s)) for s in stages)
        planned[name] = (*planned.get(name, ()), *told)
        return Artifact(stages[-1].returns, PLACEHOLDER, SOURCE.path)

    if request.adaptive is not None:
        from edgekit.build.ladder.api import plan_ladder

        said = plan_ladder(request, walk=note)
        return Plan(request.model.name, request.target.name, request.out, _planned(planned), said)
    chains = chains_of(request)
    _check(chains)
    prepared = chains.prepare(note)
    program = chains.export(prepared.checkpoint, note)
    made = chains.bundle(program, note)
    chains.judge(program, made, note)
    notes = list(chains.notes)
    if request.compression.max_drop_pp is not None:
        notes.append(f"if INT8 costs more than {request.compression.max_drop_pp:g} points: {', '.join(ORDER[1:])}, in this order")
    return Plan(request.model.name, request.target.name, request.out, _planned(planned), tuple(notes))


def _planned(stages: Mapping[str, tuple[PlannedStage, ...]]) -> tuple[PlannedChain, ...]:
    return tuple(PlannedChain(name, each) for name, each in stages.items())


def build(request: BuildRequest, *, observe: Observe = lambda event: None) -> BuildResult:
    """Build, prove and deliver a bundle; `observe` is told of every stage.

    Raises:
        InputError: model, weights or data are wrong.
        GoalError: a gate or goal is not met. Where it is how much may be lost, the best bundle was delivered all the same.
        SetupError: something is not installed, or cannot be written.
    """
    if request.model.reads_text:
        from edgekit.build.text.api import build_text

        return build_text(request, observe=observe)
    if request.adaptive is not None:
        from edgekit.build.ladder.api import build_ladder

        return build_ladder(request, observe=observe)
    begun = time.monotonic()
    chains = chains_of(request)
    _check(chains)
    walker = Walker(Store(request.store or default_root()), observe)
    walk = walker.telling(observe)
    prepared = chains.prepare(walk)
    graded = grade_all(chains, prepared, walk)
    program = chains.export(prepared.checkpoint, walk)
    notes = [*chains.notes, *_program_notes(request, program, chains)]
    verdict = None
    if request.compression.max_drop_pp is not None:
        verdict = guard(_subject(chains, program), request.compression, walk_with=walker.telling, observe=observe)
    made = chains.bundle(program, walk) if verdict is None else verdict.made
    report = chains.judge(program, made, walk)
    return finish(
        request,
        made,
        report.path,
        walker=walker,
        begun=begun,
        notes=notes,
        networks=graded,
        verdict=verdict,
        sensitivities=_sensitivities(chains, program, verdict, walk),
        with_findings=chains.splits is not None,
    )


def _check(chains: Chains) -> None:
    """What can be refused before anything slow."""
    parts = chains.learners.parts
    if parts is not None and chains.splits is not None:
        check_guardable(chains.request, tune=len(parts.tune), place=chains.splits.folder.path)


def _subject(chains: Chains, program: Artifact) -> GuardedPhotos:
    if chains.splits is None:
        raise ValueError("a guard needs data in parts")
    return GuardedPhotos(chains, chains.splits, program, "top-1" if chains.splits.labelled else "agreement with float")


def _program_notes(request: BuildRequest, program: Artifact, chains: Chains) -> list[str]:
    notes = []
    if read_facts(program.path).weights == RANDOM:
        notes.append("random weights: the bundle proves the path to the device, its answers mean nothing")
    if request.max_latency_ms is not None:
        notes.append(_goal_note(request, count_macs(program.path / PROGRAM), chains))
    return notes


def _sensitivities(chains: Chains, program: Artifact, verdict: Verdict | None, walk: Walk) -> tuple[Sensitivity, ...]:
    """Measured if they were asked for, or if layers have to be named that keep the promise from being kept."""
    lost = verdict is not None and not verdict.guarded.chosen.kept
    if verdict is not None and verdict.sensitivities:
        return verdict.sensitivities
    return sense(chains, program, walk, Recipe()) if chains.request.compression.sensitivity or lost else ()


def _goal_note(request: BuildRequest, macs: int, chains: Chains) -> str:
    spec = request.model.spec
    return check_goal(
        request.max_latency_ms or 0.0,
        macs,
        request.target,
        resolution_px=chains.facts.resolution_px,
        precisions=request.precisions,
        others_px=spec.resolutions_px if spec else (),
    )

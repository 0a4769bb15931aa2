"""The walk of a build whose bundle holds a ladder."""

import time
from dataclasses import replace

from edgekit.build.chains import Chains, chains_of
from edgekit.build.facts import read_facts
from edgekit.build.finishing import finish
from edgekit.build.fitting import grade_all
from edgekit.build.ladder.bounds import CONFIDENCE, most_harmful
from edgekit.build.ladder.found import LadderFound
from edgekit.build.ladder.photos import LadderPhotos
from edgekit.build.pipeline import Observe
from edgekit.build.preparing import Walk
from edgekit.build.request import BuildRequest, BuildResult
from edgekit.build.stages.load import RANDOM
from edgekit.build.store import Store, default_root
from edgekit.build.walker import Walker

__all__ = ["build_ladder", "ladder_notes", "ladder_of", "plan_ladder", "preferred"]

SAME_STOP = 0.99
"""On so many inputs all engines should stop at the same rung."""


def build_ladder(request: BuildRequest, *, observe: Observe = lambda event: None) -> BuildResult:
    """Build, measure, choose, prove and deliver; `observe` is told of every stage.

    Raises:
        InputError: model, weights, data or the wish for a ladder are wrong.
        GoalError: `ladder-samples`, or a gate is not met.
        SetupError: something is not installed, or cannot be written.
    """
    begun = time.monotonic()
    ladder = ladder_of(chains_of(request))
    chains = ladder.chains
    walker = Walker(Store(request.store or default_root()), observe)
    walk = walker.telling(observe)
    prepared = chains.prepare(walk)
    graded = grade_all(chains, prepared, walk)
    exits = ladder.exits(prepared.checkpoint, walk)
    checkpoint = ladder.with_exits(prepared.checkpoint, exits, walk)
    pool = ladder.pool(checkpoint, exits, walk)
    program = chains.export(checkpoint, walk)
    trial = ladder.trial(pool, program, walk)
    engine = preferred(request)
    measured, _ = ladder.measured(pool, trial, walk, engine=engine)
    choice = ladder.choose(pool, measured)
    made = ladder.final(pool, choice, program, walk)
    report = chains.judge(pool.program_of(choice.chosen.candidate.rungs[-1]), made, walk)
    found = ladder.report(pool, choice, trial, walk, engine=engine)
    notes = [*chains.notes, *ladder_notes(found)]
    if read_facts(prepared.checkpoint.path).weights == RANDOM:
        notes.append("random weights: the bundle proves the path to the device, its answers mean nothing")
    return finish(
        request,
        made,
        report.path,
        walker=walker,
        begun=begun,
        notes=notes,
        networks=graded,
        verdict=None,
        sensitivities=(),
        with_findings=True,
        ladder=found,
    )


def plan_ladder(request: BuildRequest, *, walk: Walk) -> tuple[str, ...]:
    """Walk all chains that `build_ladder` would, up to the choice -> notes for the user.

    Args:
        request: what was asked for.
        walk: notes stages and runs none.

    Raises:
        InputError: model, weights, data or the wish for a ladder are wrong.
        GoalError: `ladder-samples`.
    """
    ladder = ladder_of(chains_of(request))
    prepared = ladder.chains.prepare(walk)
    exits = ladder.exits(prepared.checkpoint, walk)
    checkpoint = ladder.with_exits(prepared.checkpoint, exits, walk)
    pool = ladder.pool(checkpoint, exits, walk)
    program = ladder.chains.export(checkpoint, walk)
    ladder.trial(pool, program, walk)
    parts = ladder.chains.learners.parts
    n = 0 if parts is None else len(parts.tune)
    ladders = [each.name for each in pool.candidates if len(each.rungs) > 1]
    most = max(most_harmful(n, ladder.limit_pp, 1 - (1 - CONFIDENCE) / max(len(ladders), 1)), 0)
    return (
        *ladder.chains.notes,
        f"ladders that are weighed: {'; '.join(ladders) or 'none'}; the one chosen, or a plain network, is packed alone",
        f"at most {ladder.limit_pp:g} points harmful are promised if {most} or fewer of {n} examples are",
    )


def ladder_of(chains: Chains) -> LadderPhotos:
    """The chains of a ladder, checked before anything slow. A network that is fitted learns at all sides of the ladder.

    Raises:
        GoalError: `ladder-samples`.
        InputError: `ladder-precision`.
    """
    parts, wish = chains.learners.parts, chains.request.adaptive
    if parts is None or chains.splits is None or wish is None:
        raise ValueError("a ladder needs a wish and data in parts")
    ladder = LadderPhotos(chains, chains.splits, wish)
    ladder.check(tune=len(parts.tune))
    sides = ladder.sides()
    if not sides:
        return ladder
    compression = replace(chains.request.compression, resolutions_px=(*sides, chains.facts.resolution_px))
    return replace(ladder, chains=replace(chains, request=replace(chains.request, compression=compression)))


def preferred(request: BuildRequest) -> str:
    """The engine whose times decide: the target's first among those that are built."""
    wanted = [each.engine for each in request.target.engines if each.engine in request.engines]
    return (*wanted, *request.engines)[0]


def ladder_notes(found: LadderFound) -> list[str]:
    """What a user should know of the choice."""
    choice = found.choice
    static, chosen = choice.static, choice.chosen
    notes = [
        f"costs of rungs are CPU times of {found.engine} on this machine, one thread: on the device shares may differ",
        f"decided on {choice.n} examples; harmful: the full network is right, the ladder wrong"
        if choice.labelled
        else f"decided on {choice.n} examples without labels; harmful: another answer than the full network's",
    ]
    if len(chosen.candidate.rungs) == 1:
        notes.append(f"no ladder saves time over {static.candidate.name} at this promise: the bundle holds that network alone")
    elif found.same_stop < SAME_STOP:
        notes.append(f"engines stop at the same rung on {found.same_stop:.1%} of the examples only")
    for floor, each in chosen.floors.items():
        if not each.kept:
            proved = f"{each.n} examples prove at most {each.bound_pp:.2f} points, not {each.limit_pp:g}"
            notes.append(f"floor {floor}: {proved}; it never stops early")
    return notes

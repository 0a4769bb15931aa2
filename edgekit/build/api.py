"""The walk of one build: from a request to a bundle. `plan` says what would be done, `build` does it."""

import time
from collections.abc import Callable
from types import MappingProxyType

from edgekit.build.artifact import Artifact
from edgekit.build.chains import Chains, chains_of
from edgekit.build.delivery import deliver, rows_of
from edgekit.build.facts import read_facts
from edgekit.build.goal import check_goal, count_macs
from edgekit.build.pipeline import Event, Stage, StageRun, check, run
from edgekit.build.request import BuildRequest, BuildResult, PayloadRow, Plan, PlannedChain, PlannedStage
from edgekit.build.stages.export import PROGRAM
from edgekit.build.stages.load import RANDOM
from edgekit.build.store import Store, default_root
from edgekit.spec.errors import GoalError

__all__ = ["build", "plan"]

Observe = Callable[[Event], None]


def plan(request: BuildRequest) -> Plan:
    """What `build` would do, without doing it: every chain of stages, checked.

    Raises:
        InputError: data or weights cannot be used.
    """
    chains = chains_of(request)
    planned = []
    for name, stages in chains.all():
        check(stages, "source")
        planned.append(PlannedChain(name, tuple(PlannedStage(s.name, s.accepts, s.returns, chains.shown(s)) for s in stages)))
    tail = tuple(PlannedStage(name, accepts, returns, MappingProxyType({})) for name, accepts, returns in chains.tail())
    planned.append(PlannedChain("bundle", tail))
    return Plan(request.model.name, request.target.name, request.out, tuple(planned), chains.notes)


def build(request: BuildRequest, *, observe: Observe = lambda event: None) -> BuildResult:
    """Build, prove and deliver a bundle; `observe` is told of every stage.

    Raises:
        InputError: model, weights or data are wrong.
        GoalError: a gate or goal is not met.
        SetupError: something is not installed, or cannot be written.
    """
    begun = time.monotonic()
    chains = chains_of(request)
    store = Store(request.store or default_root())
    runs: dict[str, StageRun] = {}

    def walk(stages: tuple[Stage, ...], source: Artifact) -> Artifact:
        artifact, done = run(stages, source, store=store, observe=observe)
        for each in done:
            runs.setdefault(each.key, each)
        return artifact

    notes = list(chains.notes)
    program = walk(chains.program, chains.source)
    if read_facts(program.path).weights == RANDOM:
        notes.append("random weights: the bundle proves the path to the device, its answers mean nothing")
    if request.max_latency_ms is not None:
        notes.append(_goal_note(request, count_macs(program.path / PROGRAM), chains))
    quantized = walk(chains.quantized, chains.source) if chains.quantized else None
    payloads = tuple(walk(stages, chains.source) for _, stages in chains.payloads)
    bundle = walk((chains.pack(payloads),), program)
    report = walk((chains.judge(program, quantized),), bundle)
    rows, more = rows_of(bundle.path, report.path)
    _check_host_goal(request, rows)
    digest = deliver(bundle.path, request.out, as_zip=request.zip)
    return BuildResult(
        bundle=request.out,
        digest=digest,
        model=request.model.name,
        target=request.target.name,
        seconds=time.monotonic() - begun,
        stages=tuple(runs.values()),
        payloads=rows,
        notes=(*notes, *more),
    )


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


def _check_host_goal(request: BuildRequest, rows: tuple[PayloadRow, ...]) -> None:
    """Where the target is this machine, the goal is held against what was measured."""
    times = {f"{row.engine} {row.precision}": row.latency_ms_here for row in rows if row.latency_ms_here is not None}
    if request.max_latency_ms is None or request.target.kind != "host" or not times:
        return
    fastest = min(times, key=lambda name: times[name])
    if times[fastest] > request.max_latency_ms:
        raise GoalError(
            f"{request.max_latency_ms:g} ms is not met here: the fastest payload, {fastest}, takes {times[fastest]:.3g} ms "
            "(median, one thread)",
            where="--max-latency-ms",
            fix=f"raise it to {times[fastest]:.3g}, or build with a smaller --resolution or --model",
            code="latency",
        )

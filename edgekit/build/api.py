"""The walk of one build: from a request to a bundle. `plan` says what would be done, `build` does it."""

import time
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType

import numpy as np

from edgekit import catalog
from edgekit.build.chains import Chains, chains_of
from edgekit.build.delivery import deliver, rows_of
from edgekit.build.goal import check_goal, count_macs
from edgekit.build.pipeline import Event, StageRun, check, run
from edgekit.build.request import ENGINES, BuildRequest, BuildResult, Plan, PlannedChain, PlannedStage
from edgekit.build.stages.export import PROGRAM
from edgekit.build.store import Store
from edgekit.spec.bundle import open_bundle
from edgekit.spec.errors import GoalError, InputError
from edgekit.spec.manifest import Manifest

__all__ = ["build", "float_logits", "plan"]

Observe = Callable[[Event], None]


def build(
    model: str | BuildRequest,
    *,
    target: str = "host",
    out: str | Path | None = None,
    data: str | Path | None = None,
    weights: str | Path | None = None,
    precisions: tuple[str, ...] = ("int8",),
    engines: tuple[str, ...] = ENGINES,
    resolution_px: int | None = None,
    observe: Observe = lambda event: None,
) -> BuildResult:
    """Build, prove and deliver a bundle.

    Args:
        model: a name, `path/to/file.py:make` or `timm:NAME`; or a whole request, which leaves the other arguments unused.
        target: name of the device, or path of its file.
        out: directory of the bundle, or a name that ends in `.ekb`; None takes `<model>-<target>` here.
        data: folder or `.npz` of photos to calibrate and judge on; None takes sample photos of installed packages.
        weights: trained weights; None takes those that the model names, random ones where it has none.
        precisions: `int8`, `fp16`, `fp32`.
        engines: `executorch`, `litert`, `onnx`.
        resolution_px: side of the input; None takes the model's own.
        observe: told of every stage.

    Raises:
        InputError: model, weights or data are wrong.
        GoalError: a gate or goal is not met.
        SetupError: something is not installed, or cannot be written.
    """
    if not isinstance(model, BuildRequest):
        source, profile = catalog.find_model(model), catalog.find_target(target)
        place = Path(out) if out is not None else Path(f"{source.name}-{profile.name}")
        model = BuildRequest(
            model=source,
            target=profile,
            out=place,
            data_dir=None if data is None else Path(data),
            weights=None if weights is None else Path(weights),
            precisions=precisions,
            engines=engines,
            resolution_px=resolution_px,
            zip=place.suffix == ".ekb",
        )
    return _build(model, observe)


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


def _build(request: BuildRequest, observe: Observe) -> BuildResult:
    begun = time.monotonic()
    chains = chains_of(request)
    store = Store(request.store)
    runs: dict[str, StageRun] = {}

    def walk(stages, source):  # noqa: ANN001, ANN202
        artifact, done = run(stages, source, store=store, observe=observe)
        for each in done:
            runs.setdefault(each.key, each)
        return artifact

    notes = list(chains.notes)
    program = walk(chains.program, chains.source)
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


def _check_host_goal(request: BuildRequest, rows: tuple) -> None:  # type: ignore[type-arg]
    """Where the target is this machine, the goal is held against what was measured."""
    times = {f"{row.engine} {row.precision}": row.latency_ms_here for row in rows if row.latency_ms_here is not None}
    if request.max_latency_ms is None or request.target.kind != "host" or not times:
        return
    fastest = min(times, key=lambda name: times[name])
    if times[fastest] > request.max_latency_ms:
        raise GoalError(
            f"{request.max_latency_ms:g} ms is not met here: the fastest payload, {fastest}, takes {times[fastest]:.2f} ms (median, one thread)",
            where="--max-latency-ms",
            fix=f"raise it to {times[fastest]:.2f}, or build with a smaller --resolution or --model",
            code="latency",
        )


def float_logits(bundle: Path) -> Callable[[Manifest, np.ndarray], np.ndarray] | None:
    """The float network of a bundle, rebuilt: (manifest, (n, h, w, 3) uint8) -> (n, classes) logits.

    None where it cannot be: the model has no name in the catalog, or its weights are not the installed ones.
    """
    with open_bundle(bundle) as reader:
        manifest = reader.manifest
    name = manifest.provenance.get("model", "")
    try:
        source = catalog.find_model(name)
    except InputError:
        return None
    if source.kind == "file":
        return None
    from edgekit.build.reference import rebuilt

    return rebuilt(source, manifest)

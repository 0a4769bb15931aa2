"""Time the payloads of a bundle on this machine, next to each other or next to another bundle's."""

import contextlib
import dataclasses
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from pathlib import Path

import numpy as np

from edgekit.bench.conditions import conditions
from edgekit.bench.lanes import Lane, Lanes, Missing, open_lanes
from edgekit.bench.memory import peak_rss_mb
from edgekit.bench.stats import ratio_of_medians
from edgekit.spec.codec import UNWRITTEN
from edgekit.spec.errors import InputError

__all__ = ["PRECISIONS", "BenchResult", "PayloadTimes", "Ratio", "bench", "measure"]

_WARM_UP = 5
PRECISIONS = ("fp32", "fp16", "int8-weights", "int8", "int8-static")
"""From the finest to the coarsest."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ratio:
    """How many times less CPU time a payload takes than the one it is held against.

    Attributes:
        payload: id of the payload.
        against: id of the other one.
        cpu: median CPU time of the other / median CPU time of this one; above 1 this one is faster.
        interval: 95 % bootstrap interval of `cpu`.
    """

    payload: str
    against: str
    cpu: float
    interval: tuple[float, float]


@dataclasses.dataclass(frozen=True, slots=True)
class PayloadTimes:
    """Times of one payload over `n` runs.

    Attributes:
        bundle_sha256: digest of its bundle.
        payload: its id.
        engine: name.
        precision: of the payload.
        delegate: what really ran it.
        threads: of its session.
        n: timed runs.
        cpu_ms: median process CPU time per run, all threads of the engine included.
        wall_ms_p50: median wall time.
        wall_ms_p99: 99th percentile of wall time.
        peak_rss_mb: peak memory of a process that only loads and runs it.
        ratio: against the payload it was paired with, if there is one.
        tokens: length of the text it ran; None for images.
    """

    bundle_sha256: str
    payload: str
    engine: str
    precision: str
    delegate: str
    threads: int
    n: int
    cpu_ms: float
    wall_ms_p50: float
    wall_ms_p99: float
    peak_rss_mb: float
    ratio: Ratio | None = None
    tokens: int | None = field(default=None, metadata=UNWRITTEN)


@dataclasses.dataclass(frozen=True, slots=True)
class BenchResult:
    """All that one call of `bench` measured.

    Attributes:
        results: the bundle's payloads, then those they were held against.
        ratio: the lowest of the results' ratios; None without `against`.
        conditions: machine, versions, threads.
        missing: engines that could not be measured.
    """

    results: tuple[PayloadTimes, ...]
    ratio: Ratio | None
    conditions: Mapping[str, str]
    missing: tuple[Missing, ...]


def bench(
    bundle: Path,
    *,
    against: Path | None = None,
    engines: Collection[str] | None = None,
    threads: int = 1,
    runs: int = 50,
) -> BenchResult:
    """Run all payloads in turn, A B A B, in one process, on a golden image or a text of each bucket; no decoding.

    With `against`, each payload is paired with one of the other bundle of the same engine: of the same precision if the other
    bundle has it, else fp32, fp16, int8 in this order. The same bundle may be given, to hold INT8 against its own fp32; then the
    highest precision of an engine is not held against anything.

    Args:
        bundle: directory or `.ekb`.
        against: other bundle.
        engines: only these; None for all that are installed.
        threads: of each session.
        runs: timed rounds, after a few to warm up.

    Raises:
        InputError: nothing to measure: too few runs, or no payload pairs with one of the other bundle.
        SetupError: no engine is installed.
    """
    if runs < 1 or threads < 1:
        raise InputError(f"runs {runs} and threads {threads} must be 1 or more", where="--runs, --threads")
    with contextlib.ExitStack() as stack:
        mine = stack.enter_context(open_lanes(bundle, engines=engines, threads=threads))
        lanes, pairs = [bucket for lane in mine.lanes for bucket in lane.buckets()], {}
        if against is not None:
            pairs = _pair(lanes, stack.enter_context(open_lanes(against, engines=engines, threads=threads)))
        cpu_ms, wall_ms = measure(lanes, runs)
        delegates = [lane.session.delegate for lane in lanes]
    ratios = {i: _ratio(lanes, i, other, cpu_ms) for i, other in pairs.items()}
    results = [_times(lanes[i], delegates[i], cpu_ms[i], wall_ms[i], threads, ratios.get(i)) for i in range(len(lanes))]
    lowest = min(ratios.values(), key=lambda r: r.cpu, default=None)
    versions = {lane.payload.engine: lane.version for lane in lanes}
    return BenchResult(tuple(results), lowest, conditions(threads=threads, runs=runs, engines=versions), mine.missing)


def measure(lanes: Sequence[Lane], runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Lanes -> CPU and wall times, (lanes, runs) ms each; every round starts with another lane, so none has a fixed neighbour."""
    cpu_ms, wall_ms = np.empty((2, len(lanes), runs))
    for _ in range(_WARM_UP):
        for lane in lanes:
            lane.run()
    for i in range(runs):
        for at in range(len(lanes)):
            turn = (i + at) % len(lanes)
            cpu, wall = time.process_time_ns(), time.perf_counter_ns()
            lanes[turn].run()
            wall_ms[turn, i] = (time.perf_counter_ns() - wall) / 1e6
            cpu_ms[turn, i] = (time.process_time_ns() - cpu) / 1e6
    return cpu_ms, wall_ms


def _pair(lanes: list[Lane], theirs: Lanes) -> dict[int, int]:
    """Index of a lane -> index of the lane it is held against; lanes of the other bundle that take part are appended."""
    same_bundle = lanes[0].digest == theirs.reader.digest
    their_lanes = [bucket for lane in theirs.lanes for bucket in lane.buckets()]
    pairs = {}
    for i, lane in enumerate(tuple(lanes)):
        others = lanes if same_bundle else their_lanes
        fitting = [o for o in others if _comparable(o, lane) and (not same_bundle or _finer(o, lane))]
        order = (lane.payload.precision, *PRECISIONS)
        if fitting:
            other = min(fitting, key=lambda o, order=order: order.index(o.payload.precision))
            at = next((at for at, known in enumerate(lanes) if known is other), len(lanes))
            if at == len(lanes):
                lanes.append(other)
            pairs[i] = at
    if not pairs:
        raise InputError(
            "no payload of the other bundle runs on the same engine",
            where=str(theirs.reader.path),
            fix=f"it has {', '.join(p.id for p in theirs.reader.manifest.payloads)}",
            code="bench-against",
        )
    return pairs


def _comparable(a: Lane, b: Lane) -> bool:
    return (a.payload.engine, a.tokens) == (b.payload.engine, b.tokens)


def _finer(a: Lane, b: Lane) -> bool:
    return PRECISIONS.index(a.payload.precision) < PRECISIONS.index(b.payload.precision)


def _ratio(lanes: Sequence[Lane], mine: int, other: int, cpu_ms: np.ndarray) -> Ratio:
    cpu, interval = ratio_of_medians(cpu_ms[other], cpu_ms[mine])
    return Ratio(lanes[mine].payload.id, lanes[other].payload.id, cpu, interval)


def _times(lane: Lane, delegate: str, cpu_ms: np.ndarray, wall_ms: np.ndarray, threads: int, ratio: Ratio | None) -> PayloadTimes:
    return PayloadTimes(
        lane.digest,
        lane.payload.id,
        lane.payload.engine,
        lane.payload.precision,
        delegate,
        threads,
        len(cpu_ms),
        float(np.median(cpu_ms)),
        float(np.median(wall_ms)),
        float(np.percentile(wall_ms, 99)),
        peak_rss_mb(lane.bundle, lane.payload.id, threads=threads, tokens=lane.tokens),
        ratio,
        lane.tokens,
    )

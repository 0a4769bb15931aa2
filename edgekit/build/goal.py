"""Can a latency goal be met at all? A bound from arithmetic, long before the device is asked.

A core that multiplies p pairs a cycle at f GHz needs at least MACs / (p f 1e6) ms: no kernel is faster. A goal below that
bound is refused; a goal above it is not a promise, only a device can give that.
"""

from dataclasses import dataclass
from pathlib import Path

from edgekit.build.request import BuildRequest, PayloadRow
from edgekit.spec.errors import GoalError
from edgekit.spec.target import Cluster, TargetProfile

__all__ = ["Bound", "bound_ms", "check_goal", "check_host_goal", "count_macs"]

FP32_MACS_PER_CYCLE = {
    "Cortex-A53": 4,
    "Cortex-A55": 4,
    "Cortex-A72": 4,
    "Cortex-A73": 4,
    "Cortex-A75": 4,
    "Cortex-A510": 4,
    "Cortex-A76": 8,
    "Cortex-A77": 8,
    "Cortex-A78": 8,
    "Cortex-A710": 8,
    "Cortex-A715": 8,
    "Cortex-A720": 8,
    "Cortex-X1": 16,
    "Cortex-X2": 16,
    "Cortex-X3": 16,
    "Cortex-X4": 16,
}
"""128-bit multiply-add pipes times four lanes: one, two or four of them, by the cores' software optimization guides."""

LANES = {"fp32": 1, "fp16": 2, "int8": 4}
"""Pairs that one fp32 lane's width multiplies at once; `i8mm` doubles that of int8."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The least time that a plan could take: never what it will take."""

    resolution_px: int
    precision: str
    least_ms: float


def count_macs(program_file: Path) -> int:
    """Multiply-accumulates of one image through the convolutions and linear layers of an exported program."""
    from edgekit.build import programs
    from edgekit.build.quantizer import LINEARS

    program = programs.load(program_file)
    total = 0
    for node in program.graph.nodes:
        if node.op == "call_function" and node.target in LINEARS:
            weight = node.args[1].meta["val"]
            # Each output value takes one product for each weight of its filter.
            total += node.meta["val"].numel() * weight[0].numel()
    return int(total)


def bound_ms(macs: int, target: TargetProfile, precision: str) -> float | None:
    """Least latency on the target with its default number of threads; None where cores or clocks are unknown."""
    speeds = [speed for cluster in target.cpu for speed in [_giga_macs(cluster, precision)] * cluster.count]
    if not speeds or None in speeds:
        return None
    fastest = sorted((s for s in speeds if s is not None), reverse=True)[: target.threads]
    return macs / 1e6 / sum(fastest)


def _giga_macs(cluster: Cluster, precision: str) -> float | None:
    per_cycle = FP32_MACS_PER_CYCLE.get(cluster.core)
    if per_cycle is None or cluster.max_ghz is None:
        return None
    lanes = LANES[precision] * (2 if precision == "int8" and cluster.isa.i8mm else 1)
    return per_cycle * lanes * cluster.max_ghz


def check_goal(
    max_latency_ms: float,
    macs: int,
    target: TargetProfile,
    *,
    resolution_px: int,
    precisions: tuple[str, ...],
    others_px: tuple[int, ...],
) -> str:
    """Refuse a goal that no kernel can meet; otherwise say what is known of it, in a sentence.

    Args:
        max_latency_ms: the goal.
        macs: of the network at `resolution_px`.
        target: the device.
        resolution_px: side of the input that is to be built.
        precisions: that are to be built.
        others_px: other sides the network can be built for.

    Raises:
        GoalError: `latency`, with the nearest plan.
    """
    bounds = []
    for side in sorted({resolution_px, *others_px}, reverse=True):
        for precision in dict.fromkeys((*precisions, "int8")):
            least = bound_ms(round(macs * (side / resolution_px) ** 2), target, precision)
            if least is None:
                return f"the goal of {max_latency_ms:g} ms was not checked: cores or clocks of {target.name} are unknown"
            bounds.append(Bound(side, precision, least))
    wanted = [b for b in bounds if b.resolution_px == resolution_px and b.precision in precisions]
    best = min(wanted, key=lambda b: b.least_ms)
    if best.least_ms <= max_latency_ms:
        return (
            f"the goal of {max_latency_ms:g} ms is above the least possible {best.least_ms:.3g} ms ({best.precision}, "
            f"{resolution_px} px, {target.threads} threads at peak); whether it is met only a measurement on the device can tell"
        )
    meeting = [b for b in bounds if b.least_ms <= max_latency_ms]
    nearest = max(meeting, key=lambda b: b.resolution_px) if meeting else min(bounds, key=lambda b: b.least_ms)
    verdict = "could meet it" if meeting else "is the nearest"
    raise GoalError(
        f"{max_latency_ms:g} ms cannot be met: {macs / 1e6:.3g} million MACs take at least "
        f"{best.least_ms:.3g} ms on {target.name} ({best.precision}, {resolution_px} px, {target.threads} threads at peak)",
        where="--max-latency-ms",
        fix=f"--resolution {nearest.resolution_px} --precision {nearest.precision} {verdict} (at least {nearest.least_ms:.3g} ms)"
        + ("" if meeting else f"; raise --max-latency-ms above {nearest.least_ms:.3g}, or take a smaller model"),
        code="latency",
    )


def check_host_goal(request: BuildRequest, rows: tuple[PayloadRow, ...]) -> None:
    """Where the target is this machine, the goal is held against what was measured.

    Raises:
        GoalError: `latency`.
    """
    times = {f"{row.engine} {row.precision}": row.latency_ms_here for row in rows if row.latency_ms_here is not None}
    if request.max_latency_ms is None or request.target.kind != "host" or not times:
        return
    smaller = "--tokens" if request.model.reads_text else "--resolution"
    fastest = min(times, key=lambda name: times[name])
    if times[fastest] > request.max_latency_ms:
        raise GoalError(
            f"{request.max_latency_ms:g} ms is not met here: the fastest payload, {fastest}, takes {times[fastest]:.3g} ms "
            "(median, one thread)",
            where="--max-latency-ms",
            fix=f"raise it to {times[fastest]:.3g}, or build with a smaller {smaller} or --model",
            code="latency",
        )

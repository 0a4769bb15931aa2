"""What a build found out of a ladder, as a report beside the bundle, and read back from it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgekit.spec.report import Measurement, Report, read_report

if TYPE_CHECKING:
    from edgekit.build.ladder.choose import Option
    from edgekit.build.ladder.found import LadderFound
    from edgekit.build.ladder.summary import Summary

__all__ = ["LADDER", "Drawn", "DrawnRung", "ladder_conditions", "ladder_measurements", "read_drawn"]

LADDER = "ladder"
"""Name of the report."""


def ladder_conditions(found: "LadderFound") -> Mapping[str, str]:
    """How it was chosen, for the report."""
    choice = found.choice
    return {
        "chosen": choice.chosen.candidate.name,
        "baseline": choice.static.candidate.name,
        "full": choice.full.candidate.name,
        "max_drop_pp": f"{choice.limit_pp:g}",
        "confidence": f"{choice.confidence:g}",
        "decided_on": str(choice.n),
        "harmful_means": "the full network is right, the ladder wrong"
        if choice.labelled
        else "another answer than the full network's",
        "engine": found.engine,
    }


def ladder_measurements(found: "LadderFound") -> list[Measurement]:
    """Every option that was weighed, what each rung takes in each payload, and the chosen ladder on examples to report on."""
    told = [m for option in found.choice.options for m in _option(option, found.choice.n)]
    for payload, costs in found.costs_ms.items():
        told += [Measurement(f"payload/{payload}/{rung}/cpu", cost, "ms", 1) for rung, cost in costs.items()]
    for floor, summary in found.report.items():
        told += _floor(floor, summary)
    if found.report:
        told.append(Measurement("same_stop", found.same_stop, "1", next(iter(found.report.values())).n))
    return told


def _option(option: "Option", n: int) -> list[Measurement]:
    name = f"option/{option.candidate.name}"
    return [
        Measurement(f"{name}/cost", option.cost, "ms", n),
        Measurement(f"{name}/harmful", float(option.harmful), "1", n),
        Measurement(f"{name}/bound", option.bound_pp, "pp", n),
    ]


def _floor(floor: str, summary: "Summary") -> list[Measurement]:
    n = summary.n
    told = [
        Measurement(f"{floor}/top1", summary.top1, "1", n),
        Measurement(f"{floor}/top1_full", summary.top1_full, "1", n),
        Measurement(f"{floor}/drop", summary.drop_pp, "pp", n, summary.interval_pp),
        Measurement(f"{floor}/harmful", float(summary.harmful), "1", n),
        Measurement(f"{floor}/helpful", float(summary.helpful), "1", n),
        Measurement(f"{floor}/cost", summary.cost, "ms", n),
        Measurement(f"{floor}/cost_p50", summary.cost_p50, "ms", n),
        Measurement(f"{floor}/cost_p99", summary.cost_p99, "ms", n),
    ]
    for rung in summary.rungs:
        name = f"{floor}/rung/{rung.rung}"
        told.append(Measurement(f"{name}/share", rung.share, "1", n))
        told.append(Measurement(f"{name}/cost", rung.cost, "ms", n))
        told.append(Measurement(f"{name}/top1_alone", rung.top1_alone, "1", n))
        if rung.top1 is not None:
            told.append(Measurement(f"{name}/top1", rung.top1, "1", rung.stopped, rung.interval))
    for row in summary.by_share:
        told.append(Measurement(f"{floor}/by_share/{row.rung}/{row.share:.1f}", row.top1, "1", n))
    return told


@dataclass(frozen=True, slots=True)
class DrawnRung:
    """A rung of a drawing; figures are None where nothing was reported."""

    rung: str
    share: float | None
    cost_ms: float | None
    top1: float | None


@dataclass(frozen=True, slots=True)
class Drawn:
    """A ladder as its build measured it, at one floor.

    Attributes:
        engine: whose CPU times.
        device: on which.
        n: examples that were reported on.
        rungs: in order.
        cost_ms: expected.
        cost_p50_ms: median.
        cost_p99_ms: 99th percentile.
        full: what always the full network takes, ms.
        baseline: name of the best plain network that keeps the promise.
        baseline_ms: what that takes.
        drop_pp: top-1 lost against the full network.
        interval_pp: of the drop.
    """

    engine: str
    device: str
    n: int
    rungs: tuple[DrawnRung, ...]
    cost_ms: float
    cost_p50_ms: float
    cost_p99_ms: float
    full_ms: float
    baseline: str
    baseline_ms: float
    drop_pp: float
    interval_pp: tuple[float, float] | None


def read_drawn(path: Path, *, digest: str, rungs: tuple[str, ...], floor: str) -> Drawn | None:
    """The report of a bundle's build; None where there is none of this very bundle.

    Raises:
        InputError: `report`; it cannot be read.
    """
    if not path.is_file():
        return None
    report = read_report(path)
    found = {m.name: m for m in report.measurements}
    if report.bundle_sha256 != digest or f"{floor}/cost" not in found:
        return None
    return _drawn(report, found, rungs, floor)


def _drawn(report: Report, found: Mapping[str, Measurement], rungs: tuple[str, ...], floor: str) -> Drawn:
    def value(name: str) -> float | None:
        return found[name].value if name in found else None

    def sure(name: str) -> float:
        return found[name].value

    baseline, drop = report.conditions["baseline"], found[f"{floor}/drop"]
    return Drawn(
        engine=report.conditions["engine"],
        device=report.device,
        n=drop.n,
        rungs=tuple(
            DrawnRung(
                rung,
                value(f"{floor}/rung/{rung}/share"),
                value(f"{floor}/rung/{rung}/cost"),
                value(f"{floor}/rung/{rung}/top1"),
            )
            for rung in rungs
        ),
        cost_ms=sure(f"{floor}/cost"),
        cost_p50_ms=sure(f"{floor}/cost_p50"),
        cost_p99_ms=sure(f"{floor}/cost_p99"),
        full_ms=sure(f"option/{report.conditions['full']}/cost"),
        baseline=baseline,
        baseline_ms=sure(f"option/{baseline}/cost"),
        drop_pp=drop.value,
        interval_pp=drop.interval,
    )

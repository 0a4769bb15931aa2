"""What a build found out, as reports beside the bundle, keyed by its digest; and the error that names what is missing."""

import time
from collections.abc import Mapping
from pathlib import Path

from edgekit.bench.conditions import conditions
from edgekit.build.ladder.findings import LADDER, ladder_conditions, ladder_measurements
from edgekit.build.outcome import GradedNetwork, Guarded
from edgekit.build.request import BuildResult, PayloadRow
from edgekit.build.sensitivity_rows import Sensitivity, guilty
from edgekit.spec.errors import GoalError
from edgekit.spec.report import Measurement, Report, write_report

__all__ = ["FOLDER_SUFFIX", "SENSITIVITY", "findings_folder", "not_kept", "write_findings"]

FOLDER_SUFFIX = ".reports"
SENSITIVITY, NETWORKS = "sensitivity", "networks"
GUILTY = 5


def findings_folder(bundle: Path) -> Path:
    """Where the reports of a bundle's build lie: beside it, never in it."""
    return bundle.with_name(bundle.name + FOLDER_SUFFIX)


def write_findings(result: BuildResult) -> tuple[Path, ...]:
    """Write a report for each payload, for the float networks, the sensitivities and the ladder; those of an earlier build go.

    Raises:
        SetupError: no space or permission.
    """
    folder = findings_folder(result.bundle)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.report.json"):
        old.unlink()
    told = {f"{row.engine}-{row.precision}": _payload(row, result.guarded) for row in result.payloads}
    told[NETWORKS] = [m for network in result.networks for m in _network(network)]
    told[SENSITIVITY] = [m for row in result.sensitivities for m in _sensitivity(row)]
    if result.ladder is not None:
        told[LADDER] = ladder_measurements(result.ladder)
    base = {**conditions(threads=1, runs=1, engines={}), "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    paths = []
    for name, measurements in told.items():
        if measurements:
            more = base | _guard_conditions(result.guarded if name not in (NETWORKS, SENSITIVITY, LADDER) else None)
            if name == LADDER and result.ladder is not None:
                more |= ladder_conditions(result.ladder)
            report = Report(result.digest, result.target, name, base["cpu"], more, tuple(measurements))
            paths.append(folder / f"{name}.report.json")
            write_report(report, paths[-1])
    return tuple(paths)


def not_kept(result: BuildResult) -> GoalError:
    """The error for a build whose best bundle loses more than allowed; the bundle was delivered."""
    guarded = result.guarded
    if guarded is None or guarded.chosen.worst is None:
        raise ValueError("there is a guard, and its choice has a bundle")
    worst = guarded.chosen.worst
    layers = ", ".join(f"{row.module} ({_cost(row)})" for row in guilty(result.sensitivities, n=GUILTY))
    spent = "; the time budget is spent: the same command goes on from here" if guarded.out_of_time else ""
    return GoalError(
        f"a drop of at most {guarded.max_drop_pp:g} points of {guarded.metric} is not proved: the best bundle "
        f"({guarded.chosen.name}) loses {worst.drop_pp:.2f}, at most {worst.bound_pp:.2f} (95 %, {worst.n} examples); "
        f"kept as {result.bundle}{spent}; "
        f"layers that cost most: {layers or 'not measured'}",
        where="--max-drop",
        fix=f"raise --max-drop to {worst.bound_pp:.2f}, raise --time-budget, give more photos, or build with --precision fp16",
        code="max-drop",
    )


def _cost(row: Sensitivity) -> str:
    drop = f"{row.disagreement_pp:.1f} pp disagree" if row.drop_pp is None else f"{row.drop_pp:.1f} pp"
    return f"{drop}, {row.snr_db:.0f} dB"


def _payload(row: PayloadRow, guarded: Guarded | None) -> list[Measurement]:
    found = [Measurement("size", float(row.size_bytes), "bytes", 1)]
    if row.latency_ms_here is not None:
        found.append(Measurement("wall_p50", row.latency_ms_here, "ms", 20))
    for name, value in (("top1", row.top1), ("agreement_float", row.agreement_top1)):
        if value is not None:
            found.append(Measurement(name, value, "1", row.n))
    if row.drop_pp is not None:
        found.append(Measurement("drop", row.drop_pp, "pp", row.n, row.interval_pp))
    for attempt in () if guarded is None else guarded.attempts:
        promise = attempt.promises.get(f"{row.engine}-{row.precision}")
        if promise is not None:
            found.append(Measurement(f"guard/{attempt.name}/drop", promise.drop_pp, "pp", promise.n, promise.interval_pp))
            found.append(Measurement(f"guard/{attempt.name}/bound", promise.bound_pp, "pp", promise.n))
            found.append(Measurement(f"guard/{attempt.name}/metric", promise.metric, "1", promise.n))
            found.append(Measurement(f"guard/{attempt.name}/metric_low", promise.metric_low, "1", promise.n))
    return found


def _guard_conditions(guarded: Guarded | None) -> Mapping[str, str]:
    if guarded is None:
        return {}
    return {
        "max_drop_pp": f"{guarded.max_drop_pp:g}",
        "metric": guarded.metric,
        "chosen": guarded.chosen.name,
        "kept": str(guarded.chosen.kept).lower(),
        "guard_seconds": f"{guarded.seconds:.1f}",
    }


def _network(network: GradedNetwork) -> list[Measurement]:
    return [
        Measurement(f"{network.name}/top1", network.top1, "1", network.n, network.interval),
        Measurement(f"{network.name}/parameters", float(network.parameters), "1", 1),
        Measurement(f"{network.name}/macs", float(network.macs), "1", 1),
    ]


def _sensitivity(row: Sensitivity) -> list[Measurement]:
    found = [
        Measurement(f"{row.layer}/{row.module}/{row.kind}/snr", row.snr_db, "dB", row.n),
        Measurement(f"{row.layer}/{row.module}/{row.kind}/disagreement", row.disagreement_pp, "pp", row.n),
    ]
    if row.drop_pp is not None:
        found.append(Measurement(f"{row.layer}/{row.module}/{row.kind}/drop", row.drop_pp, "pp", row.n))
    return found

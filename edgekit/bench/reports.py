"""Turn what was measured into reports: sidecars keyed by the bundle's digest."""

import time
from pathlib import Path

from edgekit.bench.local import BenchResult, PayloadTimes
from edgekit.spec.report import Measurement, Report, write_report

__all__ = ["reports", "write_reports"]


def reports(result: BenchResult, *, target: str) -> tuple[Report, ...]:
    """One report for each payload that was timed; figures of a text network say their bucket, as in `cpu_p50_16_tokens`.

    Args:
        result: what `bench` gave.
        target: name of the target that this machine stands for, such as `host`.
    """
    conditions = dict(result.conditions) | {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    found: dict[tuple[str, str], tuple[Measurement, ...]] = {}
    for times in result.results:
        key = times.bundle_sha256, times.payload
        found[key] = (*found.get(key, ()), *_measurements(times))
    return tuple(
        Report(bundle, target, payload, result.conditions["cpu"], conditions, measurements)
        for (bundle, payload), measurements in found.items()
    )


def write_reports(result: BenchResult, folder: Path, *, target: str) -> tuple[Path, ...]:
    """Write each report as `<digest's first 12>-<payload>.report.json` into a folder that exists.

    Raises:
        SetupError: no space or permission.
    """
    paths = []
    for report in reports(result, target=target):
        paths.append(folder / f"{report.bundle_sha256[:12]}-{report.engine}.report.json")
        write_report(report, paths[-1])
    return tuple(paths)


def _measurements(times: PayloadTimes) -> tuple[Measurement, ...]:
    bucket = "" if times.tokens is None else f"_{times.tokens}_tokens"
    found = [
        Measurement(f"cpu_p50{bucket}", times.cpu_ms, "ms", times.n),
        Measurement(f"wall_p50{bucket}", times.wall_ms_p50, "ms", times.n),
        Measurement(f"wall_p99{bucket}", times.wall_ms_p99, "ms", times.n),
        Measurement(f"peak_rss{bucket}", times.peak_rss_mb, "MB", 1),
    ]
    if times.ratio is not None:
        found.append(
            Measurement(f"cpu_ratio_to_{times.ratio.against}{bucket}", times.ratio.cpu, "1", times.n, times.ratio.interval)
        )
    return tuple(found)

"""Is what the guard promised kept? Its promise, made on photos to decide on, is held against resampled halves of the validation.

    python tools/bench/honesty.py BUNDLE --data DIR --float FP32_BUNDLE

The promises of each payload are read from the reports beside the bundle: the largest drop (`guard/NAME/bound`), the least top-1
on photos at large (`guard/NAME/metric_low`), and the least top-1 on as many photos as a half has, which follows from
`guard/NAME/metric` and its number of photos (`stats.least_share`): a few photos scatter more than photos at large. Each of 20
halves is drawn at random from the photos to report on. Writes `honesty.report.json` beside the other reports.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from edgekit.bench.conditions import conditions
from edgekit.bench.labels import match_labels
from edgekit.bench.lanes import answers, open_lanes
from edgekit.bench.stats import least_share
from edgekit.build.data import held_out, open_data
from edgekit.build.findings import findings_folder
from edgekit.spec.report import Measurement, Report, read_report, write_report

HALVES = 20


def main() -> None:
    arguments = _arguments()
    data = open_data(held_out(arguments.data))
    folder = findings_folder(arguments.bundle)
    right, digest = _right(arguments.bundle, data)
    reference = next(iter(_right(arguments.float, data)[0].values()))
    halves = _halves(len(data), arguments.seed)
    measurements = []
    for name, mine in right.items():
        report = read_report(folder / f"{name}.report.json")
        bound, low = _promised(report, "bound").value, _promised(report, "metric_low").value
        metric = _promised(report, "metric")
        few = least_share(metric.value, metric.n, of=len(halves[0]))
        drops = np.array([100 * (reference[half].mean() - mine[half].mean()) for half in halves])
        shares = np.array([mine[half].mean() for half in halves])
        measurements += [
            Measurement(f"{name}/promised_top1", low, "1", 1),
            Measurement(f"{name}/halves_that_keep_top1", float(np.sum(shares >= low)), "1", HALVES),
            Measurement(f"{name}/promised_top1_of_a_half", few, "1", 1),
            Measurement(f"{name}/halves_that_keep_top1_of_a_half", float(np.sum(shares >= few)), "1", HALVES),
            Measurement(f"{name}/top1", float(shares.mean()), "1", HALVES, (float(shares.min()), float(shares.max()))),
            Measurement(f"{name}/promised_drop", bound, "pp", 1),
            Measurement(f"{name}/halves_that_keep_drop", float(np.sum(drops <= bound)), "1", HALVES),
            Measurement(f"{name}/drop", float(drops.mean()), "pp", HALVES, (float(drops.min()), float(drops.max()))),
        ]
        print(
            f"{name}, {HALVES} halves of {len(halves[0])} photos: promised drop of at most {bound:.2f} points: kept on "
            f"{np.sum(drops <= bound)} ({drops.min():.2f} to {drops.max():.2f}); promised top-1 of so many photos of at least "
            f"{100 * few:.1f} %: kept on {np.sum(shares >= few)} ({100 * shares.min():.1f} to {100 * shares.max():.1f} %); "
            f"of photos at large {100 * low:.1f} %: reached by {np.sum(shares >= low)}, and by all photos: {mine.mean() >= low}"
        )
    told = {**conditions(threads=1, runs=HALVES, engines={}), "command": " ".join(sys.argv), "interval": "smallest to largest"}
    write_report(Report(digest, "host", "all", told["cpu"], told, tuple(measurements)), folder / "honesty.report.json")


def _right(bundle: Path, data: object) -> tuple[dict[str, np.ndarray], str]:
    """(payload -> (n,) bool, the bundle's digest)."""
    with open_lanes(bundle, threads=1) as opened:
        manifest = opened.reader.manifest
        rung = manifest.rungs[-1]
        labels, note = match_labels(data.labels, data.classes, opened.reader)
        if labels is None:
            sys.exit(note)
        images = data.iter_images(resolution_px=rung.resolution_px, resize_px=rung.resize_px, filter=manifest.preprocess.filter)
        found = answers(opened.lanes, images)
        return {
            lane.payload.id: out.argmax(1) == labels for lane, out in zip(opened.lanes, found, strict=True)
        }, opened.reader.digest


def _promised(report: Report, figure: str) -> Measurement:
    wanted = f"guard/{report.conditions['chosen']}/{figure}"
    return next(m for m in report.measurements if m.name == wanted)


def _halves(n: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.permutation(n)[: n // 2] for _ in range(HALVES)]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--float", type=Path, required=True, help="a bundle with an fp32 payload of the same network")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()

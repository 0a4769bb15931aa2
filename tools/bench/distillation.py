"""What a teacher is worth: student alone and student distilled with equal steps, over several seeds.

    python tools/bench/distillation.py --data DIR --student mobilenet_v3_small --teacher efficientnet_lite2 --epochs 30 -o OUT

Trains through `edgekit fit`, on a GPU where there is one; every network is judged on photos that no training saw. Writes
`distillation.report.json` (gain per seed, mean, spread) and prints a table.
"""

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from edgekit.bench.conditions import conditions
from edgekit.spec.digest import sha256_tree
from edgekit.spec.report import Measurement, Report, write_report


def main() -> None:
    arguments = _arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        rows = list(pool.map(lambda seed: _one(arguments, seed), range(arguments.seeds)))
    gains = np.array([100 * (row["student distilled"]["top1"] - row["student alone"]["top1"]) for row in rows])
    first = rows[0]
    measurements = [
        Measurement(f"seed {seed}/{name}/top1", network["top1"], "1", network["n"], tuple(network["interval"]))
        for seed, row in enumerate(rows)
        for name, network in row.items()
    ]
    spread = float(gains.std(ddof=1)) if len(gains) > 1 else 0.0
    share = first["student distilled"]["macs"] / first["teacher"]["macs"]
    measurements += [
        Measurement("gain_mean", float(gains.mean()), "pp", len(gains), (float(gains.min()), float(gains.max()))),
        Measurement("gain_standard_deviation", spread, "pp", len(gains)),
        Measurement("student_macs_share", share, "1", 1),
    ]
    told = {**conditions(threads=1, runs=len(rows), engines={}), "command": " ".join(sys.argv), "interval": "smallest to largest"}
    digest = sha256_tree(arguments.out / "seed-0")
    write_report(
        Report(digest, "host", "float", told["cpu"], told, tuple(measurements)), arguments.out / "distillation.report.json"
    )
    for seed, row in enumerate(rows):
        print(f"seed {seed}: " + ", ".join(f"{name} {100 * network['top1']:.1f} %" for name, network in row.items()))
    print(
        f"gain {gains.mean():.2f} points (standard deviation {spread:.2f}, n = {len(gains)}); MACs {share:.3f} of the teacher's"
    )


def _one(arguments: argparse.Namespace, seed: int) -> dict[str, dict[str, float]]:
    out = arguments.out / f"seed-{seed}"
    command = [
        *(sys.executable, "-m", "edgekit.cli", "fit", "--json", "--model", arguments.student, "--teacher", arguments.teacher),
        *("--data", str(arguments.data), "--epochs", str(arguments.epochs), "--seed", str(seed), "-o", str(out)),
        *("--device", arguments.device, "--batch-size", str(arguments.batch_size)),
    ]
    for option, value in (
        ("--teacher-weights", arguments.teacher_weights),
        ("--resolution", arguments.resolution),
        ("--learning-rate", arguments.learning_rate),
        ("--store", arguments.store),
    ):
        command += [] if value is None else [option, str(value)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}")
    return {network["name"]: network for network in json.loads(done.stdout)["networks"]}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--student", default="mobilenet_v3_small")
    parser.add_argument("--teacher", default="efficientnet_lite2")
    parser.add_argument("--teacher-weights", type=Path)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--resolution", type=int)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="seeds at a time; more than one pays on a GPU only")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--store", type=Path)
    parser.add_argument("-o", "--out", type=Path, default=Path("distillation"))
    return parser.parse_args()


if __name__ == "__main__":
    main()

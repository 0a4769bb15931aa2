"""Is what a ladder promises kept? Its margins are chosen anew on a part of the examples and held against the others, 20 times.

```
python tools/bench/ladder_promise.py LADDER --data DIR [--limit 1.0] [--payload executorch-int8] [--splits 20]
```

Examples to decide and to report on are thrown together and dealt anew, each part as large as it was; neither trained the
network. Of each split the margins of all floors are chosen by the rule of the build for a single ladder, at 95 % (a build
that tries several is stricter), and what they lose is counted on the other part: the promise is kept where the drop of top-1
against the last rung is at most the limit. Harmful answers are told as well: a part of a few hundred shows more than 1 % of
them now and then although the rate is below. Exit code 3 where fewer than 19 of 20 keep it.
"""

import argparse
import contextlib
import dataclasses
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ladder
import numpy as np

from edgekit.build.ladder.choose import Measured
from edgekit.build.ladder.margins import FLOORS, Trials, calibrate_floors, stops
from edgekit.runtime.ladder import Step, climb_all
from edgekit.spec.bundle import BundleReader, open_bundle

DESIGN = 1000
"""Examples that trained the network and order the margins of several exits, as the build does."""

LEAST_KEPT = 0.95


@dataclasses.dataclass(frozen=True, slots=True)
class Answers:
    """Of every rung: (n, classes) logits, (n,) labels, and the median CPU ms."""

    logits: dict[str, np.ndarray]
    labels: np.ndarray
    costs: dict[str, float]


def answers(reader: BundleReader, prepare: ladder.Prepare, items: Sequence[Any], labels: np.ndarray) -> Answers:
    """Every rung's answer to every example."""
    names = [rung.name for rung in reader.manifest.rungs]
    logits: dict[str, list[np.ndarray]] = {name: [] for name in names}
    times: dict[str, list[float]] = {name: [] for name in names}

    def watched(step: Step) -> Step:
        def run(*inputs: np.ndarray) -> tuple[np.ndarray, ...]:
            begun = time.process_time_ns()
            outputs = step.run(*inputs)
            times[step.rung.name].append((time.process_time_ns() - begun) / 1e6)
            logits[step.rung.name].append(np.asarray(outputs[0]).reshape(-1))
            return outputs

        return Step(step.rung, run)

    for item in items:
        given = prepare(item).through()
        climb_all((dataclasses.replace(given, steps=[watched(step) for step in given.steps]),))
    costs = {name: float(np.median(each)) for name, each in times.items()}
    return Answers({name: np.stack(rows) for name, rows in logits.items()}, labels, costs)


def main() -> int:
    """Deal, choose, count, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ladder", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="what the ladder was built with")
    parser.add_argument("--limit", type=float, default=1.0, help="points of harmful answers that the floor `balanced` is held to")
    parser.add_argument("--payload", help="its id [the first]")
    parser.add_argument("--splits", type=int, default=20)
    args = parser.parse_args()
    with open_bundle(args.ladder) as reader, contextlib.ExitStack() as stack:
        payloads = {payload.id: payload for payload in reader.manifest.payloads}
        payload = payloads[args.payload or next(iter(payloads))]
        names = [rung.name for rung in reader.manifest.rungs]
        if len(names) < 2:
            sys.exit("ladder_promise: the bundle holds one rung, there is nothing to promise")
        prepare = ladder.prepared(stack, reader, payload.engine, payload.precision)
        wanted = ("tune", "report") if len(names) == 2 else ("tune", "report", "fit")
        parts = {part: ladder.items_of(reader, args.data, part=part) for part in wanted}
        if any(labels is None for _, labels in parts.values()):
            sys.exit("ladder_promise: without labels nothing can be counted")
        items = [*parts["tune"][0], *parts["report"][0]]
        decided = answers(reader, prepare, items, np.concatenate([parts["tune"][1], parts["report"][1]]))
        design = decided
        if len(names) > 2:
            some = np.random.default_rng(0).permutation(len(parts["fit"][0]))[:DESIGN]
            design = answers(reader, prepare, [parts["fit"][0][i] for i in some], np.asarray(parts["fit"][1])[some])
    kept = {floor: 0 for floor in FLOORS}
    for seed in range(args.splits):
        order = np.random.default_rng(seed).permutation(len(items))
        split(names, decided, design, order, size=len(parts["tune"][0]), limit_pp=args.limit, kept=kept, seed=seed)
    for floor, count in kept.items():
        print(f"{payload.id}, {floor}: at most {FLOORS[floor] * args.limit:g} points kept on {count} of {args.splits}")
    return 0 if all(count >= LEAST_KEPT * args.splits for count in kept.values()) else 3


def split(
    names: Sequence[str],
    decided: Answers,
    design: Answers,
    order: np.ndarray,
    *,
    size: int,
    limit_pp: float,
    kept: dict[str, int],
    seed: int,
) -> None:
    """Choose on the first `size` examples of `order`, count on the others."""
    own = {name: rows[order[:size]] for name, rows in decided.logits.items()}
    measured = Measured(own, decided.labels[order[:size]], design.logits, design.labels, decided.costs)
    costs = measured.costs_of(names)
    floors = calibrate_floors(measured.trials(names), measured.path(names), costs, limit_pp=limit_pp)
    others = Trials.of([decided.logits[name][order[size:]] for name in names], decided.labels[order[size:]])
    told = []
    for floor, each in floors.items():
        stopped = stops(others.margins, each.margins)
        right = others.right[np.arange(len(others)), stopped]
        drop_pp = 100 * float(others.right[:, -1].mean() - right.mean())
        kept[floor] += drop_pp <= each.limit_pp
        share = float((stopped < len(names) - 1).mean())
        told.append(f"{floor} {drop_pp:+.2f} points, {int(others.harmful(stopped).sum())} harmful, {share:.0%} early")
    print(f"split {seed}: {'; '.join(told)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

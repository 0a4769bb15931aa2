"""A ladder against the network that it saves: every photo or text goes through both bundles in turn, on each engine.

```
edgekit build --weights FITTED --data DIR --adaptive resolution --max-drop 1.0 -o ladder
edgekit build --weights FITTED --data DIR -o full
python tools/bench/ladder.py ladder full --data DIR [--floor fast] [--rounds 3] [--most 0.75] [-o report.json]
```

Photos or texts are those to report on, which neither trained nor decided anything. Process CPU time of the networks, one thread,
pixels and tokens prepared outside of the clock: the median over the rounds of each input, then the mean over the inputs, which is
what a device pays. The interval is a bootstrap over inputs. Exit code 3 where `--most` or the same stop on all engines is missed.
"""

import argparse
import contextlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from buckets import ratio_of_means

from edgekit.bench.conditions import conditions, cpu_model
from edgekit.bench.labels import match_labels
from edgekit.bench.stats import drop_interval, share_interval
from edgekit.build.chains import ENGINE_DISTRIBUTIONS
from edgekit.build.origin import version_of
from edgekit.build.splits import choose_splits
from edgekit.build.text.splits import choose_text_splits
from edgekit.runtime.images import decode
from edgekit.runtime.ladder import Ask, Input, climb_all
from edgekit.runtime.loaded import Loaded, load_payload
from edgekit.runtime.loaded_text import LoadedText, load_text
from edgekit.runtime.pixels import crop_pixels
from edgekit.runtime.tokens import open_encode, shortened
from edgekit.spec.bundle import BundleReader, open_bundle
from edgekit.spec.report import Measurement, Report, write_report

LEAST_SAME_STOP = 0.99
WARM_UP = 5

Prepare = Callable[[Any], Input]
"""A photo's path or a text -> what is climbed, with all tensors made."""


@dataclass(frozen=True, slots=True)
class Row:
    """One payload.

    Attributes:
        payload: its id.
        engine: that ran both bundles.
        ms: (2, n) CPU time of the ladder and of the full network.
        picks: (2, n) best classes.
        rungs: (n,) index of the rung that answered.
    """

    payload: str
    engine: str
    ms: np.ndarray
    picks: np.ndarray
    rungs: np.ndarray

    @property
    def ratio(self) -> tuple[float, tuple[float, float]]:
        """Mean time of the ladder over that of the full network, and its 95 % interval; inputs are drawn with both times."""
        return ratio_of_means(self.ms[0], self.ms[1])


def main() -> int:
    """Measure, print a table, write a report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ladder", type=Path)
    parser.add_argument("full", type=Path, help="a bundle of the ladder's last rung alone")
    parser.add_argument("--data", type=Path, required=True, help="what the ladder was built with")
    parser.add_argument("--floor", default="balanced")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most", type=float, help="of the ratio")
    parser.add_argument("-o", "--out", type=Path, help="write a report here")
    args = parser.parse_args()
    with open_bundle(args.ladder) as ladder, open_bundle(args.full) as full:
        items, labels = items_of(ladder, args.data)
        names = [rung.name for rung in ladder.manifest.rungs]
        rows = []
        for payload in ladder.manifest.payloads:
            with contextlib.ExitStack() as stack:
                sides = [prepared(stack, reader, payload.engine, payload.precision) for reader in (ladder, full)]
                rows.append(compare(payload.id, payload.engine, sides, items, ask=Ask(args.floor), rounds=args.rounds))
            show(rows[-1], names, labels)
        same = float(np.mean([len(set(column)) == 1 for column in np.stack([row.rungs for row in rows]).T]))
        print(f"all engines stop at the same rung on {same:.1%} of {len(items)}")
        if args.out:
            write_report(report_of(ladder, rows, names, labels, same=same, floor=args.floor), args.out)
    slow = args.most is not None and any(row.ratio[0] > args.most for row in rows)
    return 3 if slow or same < LEAST_SAME_STOP else 0


def items_of(reader: BundleReader, data: Path, *, part: str = "report") -> tuple[list[Any], np.ndarray | None]:
    """Inputs of a part, and their labels as the network's classes."""
    if reader.manifest.text is not None:
        texts = getattr(choose_text_splits(data, seed=0, trains=True)[1], part)
        return list(texts.texts), match_labels(texts.labels, texts.classes, reader)[0]
    photos = getattr(choose_splits(data, seed=0, trains=True)[1], part)
    items = [decode(sample.source) for sample in photos.samples if isinstance(sample.source, Path)]
    return items, match_labels(photos.labels, photos.classes, reader)[0]


def prepared(stack: contextlib.ExitStack, reader: BundleReader, engine: str, precision: str) -> Prepare:
    """What makes inputs of a bundle's payload."""
    manifest = reader.manifest
    payload = next(p for p in manifest.payloads if (p.engine, p.precision) == (engine, precision))
    if manifest.text is not None:
        texts = load_text(reader, payload, threads=1)
        stack.callback(texts.close)
        return text_inputs(texts, reader)
    photos = load_payload(reader, payload, threads=1)
    stack.callback(photos.close)
    return photo_inputs(photos, reader)


def photo_inputs(loaded: Loaded, reader: BundleReader) -> Prepare:
    """Of a bundle that sees photos."""
    assert reader.manifest.preprocess is not None
    how = reader.manifest.preprocess.filter

    def prepare(photo: np.ndarray) -> Input:
        starts = [step.rung for step in loaded.steps if not step.rung.continues]
        tensors = {rung.name: (loaded.tensor(crop_pixels(photo, rung, filter_name=how), rung),) for rung in starts}
        return Input(loaded.steps, lambda rung: tensors[rung.name])

    return prepare


def text_inputs(loaded: LoadedText, reader: BundleReader) -> Prepare:
    """Of a bundle that reads texts."""
    text = reader.manifest.text
    assert text is not None
    encode = open_encode(reader, text)

    def prepare(each: str) -> Input:
        ids = shortened(encode(each), max_tokens=min(text.max_tokens, loaded.buckets[-1]))
        return loaded.input_of(loaded.tensors(ids, loaded.bucket_of(len(ids))))

    return prepare


def compare(payload: str, engine: str, sides: Sequence[Prepare], items: Sequence[Any], *, ask: Ask, rounds: int) -> Row:
    """Run all inputs through both sides, one after the other, and the next input in the other order."""
    times, picks = np.zeros((rounds, 2, len(items))), np.zeros((2, len(items)), int)
    rungs = np.zeros(len(items), int)
    for item in items[:WARM_UP]:
        for prepare in sides:
            climb_all((prepare(item).through(),))
    for turn in range(rounds):
        for i, item in enumerate(items):
            both = [(side, prepare(item)) for side, prepare in enumerate(sides)]
            for side, given in both if (i + turn) % 2 else reversed(both):
                begun = time.process_time_ns()
                (outcome,) = climb_all((given,), ask)
                times[turn, side, i] = (time.process_time_ns() - begun) / 1e6
                picks[side, i] = int(np.argmax(outcome.outputs[0]))
                if side == 0:
                    rungs[i] = outcome.index
    return Row(payload, engine, np.median(times, axis=0), picks, rungs)


def show(row: Row, names: Sequence[str], labels: np.ndarray | None) -> None:
    """Print what one payload gave."""
    ratio, (low, high) = row.ratio
    p50, p99 = np.percentile(row.ms, [50, 99], axis=1)
    print(
        f"{row.payload}: {row.ms[0].mean():.3f} ms against {row.ms[1].mean():.3f}: {ratio:.3f} ({low:.3f} to {high:.3f}), "
        f"n {row.ms.shape[1]}; p50 {p50[0]:.3f} against {p50[1]:.3f}, p99 {p99[0]:.3f} against {p99[1]:.3f}"
    )
    counts = Counter(row.rungs.tolist())
    print("  stop at " + ", ".join(f"{name} {counts[i] / len(row.rungs):.1%}" for i, name in enumerate(names)))
    if labels is not None:
        own, full = row.picks[0] == labels, row.picks[1] == labels
        drop, (least, most) = drop_interval(full, own)
        print(
            f"  top-1 {own.mean():.1%} against {full.mean():.1%}: drop {100 * drop:.2f} points ({100 * least:.2f} to "
            f"{100 * most:.2f}), harmful {int((full & ~own).sum())}, helpful {int((~full & own).sum())}",
            flush=True,
        )


def measured(row: Row, names: Sequence[str], labels: np.ndarray | None) -> Iterator[Measurement]:
    """What a report says of one payload."""
    n = row.ms.shape[1]
    ratio, interval = row.ratio
    yield Measurement(f"{row.payload}/time_ratio", ratio, "1", n, interval)
    for side, name in enumerate(("ladder", "full")):
        yield Measurement(f"{row.payload}/{name}/cpu_mean", float(row.ms[side].mean()), "ms", n)
        yield Measurement(f"{row.payload}/{name}/cpu_p50", float(np.percentile(row.ms[side], 50)), "ms", n)
        yield Measurement(f"{row.payload}/{name}/cpu_p99", float(np.percentile(row.ms[side], 99)), "ms", n)
        if labels is not None:
            right = row.picks[side] == labels
            yield Measurement(f"{row.payload}/{name}/top1", float(right.mean()), "1", n, share_interval(right))
    for i, name in enumerate(names):
        yield Measurement(f"{row.payload}/rung/{name}/share", float((row.rungs == i).mean()), "1", n)


def report_of(
    reader: BundleReader, rows: Sequence[Row], names: Sequence[str], labels: np.ndarray | None, *, same: float, floor: str
) -> Report:
    """All rows as one report of the ladder."""
    told = [each for row in rows for each in measured(row, names, labels)]
    told.append(Measurement("same_stop", same, "1", rows[0].ms.shape[1]))
    versions = {row.engine: version_of(ENGINE_DISTRIBUTIONS.get(row.engine, row.engine)) for row in rows}
    known = dict(conditions(threads=1, runs=rows[0].ms.shape[1], engines=versions)) | {"floor": floor}
    known["date"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return Report(reader.digest, "host", "+".join(row.payload for row in rows), cpu_model(), known, tuple(told))


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())

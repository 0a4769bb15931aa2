"""What it saves to run each text in the shortest bucket that holds it, against the longest bucket for all of them.

```
edgekit build --model minilm_l6 --data DIR --target snapdragon865 --out bundles/banking
python tools/bench/buckets.py bundles/banking DIR/validation.csv [--engine onnx] [--texts 200] [-o report.json]
```

Every text runs both ways, one after the other, and the next text in the other order, so that whatever slows the machine slows
both. Inference alone, one thread, process CPU time; the mean over the texts, as they come, is what a device pays for them. The
interval is a bootstrap over texts. Exit code 3 where a payload saves less than is promised.
"""

import argparse
import contextlib
import dataclasses
import itertools
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edgekit.bench.conditions import conditions, cpu_model
from edgekit.bench.lanes import Lane, open_lanes
from edgekit.build.data import open_texts
from edgekit.runtime.loaded_text import LoadedText
from edgekit.runtime.tokens import open_encode, shortened
from edgekit.spec.report import Measurement, Report, write_report

MOST_RATIO = 0.45
"""Of the CPU time that the longest bucket takes for all texts."""

WARM_UP, RESAMPLES = 5, 2000


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One payload; times in ms of CPU, means over the texts.

    Attributes:
        payload: its id.
        n: texts.
        fitting_ms: in the shortest bucket that holds the text.
        longest_ms: in the longest one.
        ratio: of the two; below 1 buckets save time.
        interval: 95 % of `ratio`.
        same_answer: share of texts with the same best class both ways.
    """

    payload: str
    n: int
    fitting_ms: float
    longest_ms: float
    ratio: float
    interval: tuple[float, float]
    same_answer: float


def main() -> int:
    """Measure, print a table, write a report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("data", type=Path, help="a CSV of texts")
    parser.add_argument("--engine", action="append", help="only these [all that are installed]")
    parser.add_argument("--texts", type=int, help="so many of them, spread over the classes [all]")
    parser.add_argument("-o", "--out", type=Path, help="write a report here")
    args = parser.parse_args()
    with open_lanes(args.bundle, engines=args.engine, threads=1) as opened:
        text = opened.reader.manifest.text
        if text is None:
            sys.exit("buckets: the bundle's network sees images")
        data = open_texts(args.data)
        data = data if args.texts is None else data.take(args.texts)
        encode = open_encode(opened.reader, text)
        ids = [shortened(encode(each), max_tokens=text.max_tokens) for each in data.texts]
        print("| payload | texts | shortest bucket, ms | longest bucket, ms | ratio (95 %) | same answer |")
        print("|---" * 6 + "|")
        rows = [shown(compare(lane, ids)) for lane in opened.lanes]
        shares = shares_of(opened.lanes[0], ids)
        print("; ".join(f"{share:.1%} of the texts in {tokens} tokens" for tokens, share in shares.items()))
        if args.out:
            write_report(report_of(opened.lanes, rows, shares), args.out)
    return 0 if all(row.ratio <= MOST_RATIO for row in rows) else 3


def compare(lane: Lane, ids: Sequence[tuple[int, ...]]) -> Row:
    """Run all texts of (n,) ids each, both ways in turn."""
    session = session_of(lane)
    longest = session.buckets[-1]
    times, best = np.zeros((2, len(ids))), np.zeros((2, len(ids)), int)
    for tokens in session.buckets:
        for _ in range(WARM_UP):
            session.run(*session.tensors(ids[0][:tokens], tokens))
    for i, row in enumerate(ids):
        ways = [(0, session.bucket_of(len(row))), (1, longest)]
        for way, tokens in ways if i % 2 else reversed(ways):
            inputs = session.tensors(row, tokens)
            begun = time.process_time_ns()
            logits = session.run(*inputs)[0]
            times[way, i] = (time.process_time_ns() - begun) / 1e6
            best[way, i] = int(np.argmax(logits))
    ratio, interval = ratio_of_means(times[0], times[1])
    means = times.mean(axis=1)
    return Row(lane.payload.id, len(ids), float(means[0]), float(means[1]), ratio, interval, float(np.mean(best[0] == best[1])))


def session_of(lane: Lane) -> LoadedText:
    """The payload with all of its buckets."""
    if not isinstance(lane.session, LoadedText):
        raise TypeError(f"{lane.payload.id} does not read text")
    return lane.session


def ratio_of_means(upper: np.ndarray, lower: np.ndarray) -> tuple[float, tuple[float, float]]:
    """(n,) and (n,) times of the same texts -> mean(upper) / mean(lower) and its 95 % bootstrap interval.

    Texts are drawn with both of their times.
    """
    draws = np.random.default_rng(0).integers(len(upper), size=(RESAMPLES, len(upper)))
    low, high = np.percentile(upper[draws].mean(axis=1) / lower[draws].mean(axis=1), [2.5, 97.5])
    return float(upper.mean() / lower.mean()), (float(low), float(high))


def shares_of(lane: Lane, ids: Sequence[tuple[int, ...]]) -> dict[int, float]:
    """Bucket -> share of the texts that it takes."""
    session = session_of(lane)
    found = Counter(session.bucket_of(len(row)) for row in ids)
    return {tokens: found[tokens] / len(ids) for tokens in session.buckets}


def shown(row: Row) -> Row:
    """Print one line of the table."""
    low, high = row.interval
    print(
        f"| {row.payload} | {row.n} | {row.fitting_ms:.3f} | {row.longest_ms:.3f} "
        f"| {row.ratio:.3f} ({low:.3f} to {high:.3f}) | {row.same_answer:.1%} |",
        flush=True,
    )
    return row


def report_of(lanes: Sequence[Lane], rows: Sequence[Row], shares: dict[int, float]) -> Report:
    """All rows as one report of the bundle."""
    measured = [
        (
            Measurement(f"{row.payload}/bucket_ratio", row.ratio, "1", row.n, row.interval),
            Measurement(f"{row.payload}/shortest_bucket_cpu", row.fitting_ms, "ms", row.n),
            Measurement(f"{row.payload}/longest_bucket_cpu", row.longest_ms, "ms", row.n),
            Measurement(f"{row.payload}/same_answer", row.same_answer, "1", row.n),
        )
        for row in rows
    ]
    texts = [Measurement(f"texts_in_{tokens}_tokens", share, "1", rows[0].n) for tokens, share in shares.items()]
    versions = {lane.payload.engine: lane.version for lane in lanes}
    known = dict(conditions(threads=1, runs=rows[0].n, engines=versions))
    known["date"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    engines = "+".join(row.payload for row in rows)
    return Report(lanes[0].digest, "host", engines, cpu_model(), known, tuple(itertools.chain(*measured, texts)))


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())

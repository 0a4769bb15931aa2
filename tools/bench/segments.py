"""What cutting a network into integer segments costs: the chain of them against the uncut payload, in turn, on the same photos.

```
python tools/bench/segments.py --model efficientnet_lite0 --data DIR [--weights FOLDER] [--exits blocks.6,blocks.10] [--photos 60]
```

Exits have random weights, which cost as much as trained ones. Process CPU time, one thread, medians; nothing exits early, so the
overhead is that of the cuts and of all exits. `--hidden 1` leaves next to nothing of the exits: the overhead of the cuts alone.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from edgekit.build.checkpoint import read_checkpoint
from edgekit.build.construct import make_network
from edgekit.build.facts import Facts
from edgekit.build.ladder.places import check_places
from edgekit.build.ladder.segments import segments, whole
from edgekit.build.ladder.staged import HIDDEN, ExitHead, Staged
from edgekit.build.origin import network_of
from edgekit.build.quantize import Quantized, quantize
from edgekit.build.splits import choose_splits
from edgekit.build.tensors import batches
from edgekit.catalog import find_engine, find_lowering, find_model
from edgekit.runtime.pixels import apply_table, make_table
from edgekit.spec.manifest import Entry

ENGINES = {"executorch": "int8", "litert": "int8", "onnx": "uint8"}
CALIBRATION = 32
ROUNDS = 3
MOST_GROWTH, MOST_OVERHEAD = 0.03, 0.08


def staged_network(arguments: argparse.Namespace) -> tuple[Staged, Facts]:
    """The network with exits that have random heads."""
    source = find_model(arguments.model)
    network, facts = network_of(source, weights=arguments.weights, classes=None, seed=0, resolution_px=None)
    is_checkpoint = arguments.weights is not None and arguments.weights.is_dir()
    module = (read_checkpoint(arguments.weights, network) if is_checkpoint else make_network(network)).eval()
    example = torch.zeros(1, 3, facts.resolution_px, facts.resolution_px)
    names = tuple(arguments.exits.split(",")) if arguments.exits else source.spec.exits_after if source.spec else ()
    torch.manual_seed(0)
    heads = {
        place.name: ExitHead(place.channels, facts.classes, arguments.hidden) for place in check_places(module, names, example)
    }
    return Staged(module, heads).eval(), facts


class Payloads:
    """The network uncut and in segments, on one engine."""

    def __init__(self, engine: str, uncut: Quantized, parts: tuple[Quantized, ...], folder: Path) -> None:
        code, module = find_lowering(engine), find_engine(engine)
        names = [f"rung{i}" for i in range(len(parts))]
        one = code.lower_integer(uncut, activation_dtype=ENGINES[engine])
        cut = code.lower_rungs(dict(zip(names, parts, strict=True)), activation_dtype=ENGINES[engine])
        self.entry = one.inputs[0]
        self.growth = sum(map(len, cut.files.values())) / len(one.payload) - 1

        def load(file: str, content: bytes, piece: Any) -> Any:
            path = folder / f"{file}{code.SUFFIX}"
            path.write_bytes(content)
            return module.load(path, Entry(file, "", piece.method, piece.inputs, piece.outputs), threads=1)

        self.uncut = load("uncut", one.payload, one)
        self.segments = [load(piece.file, cut.files[piece.file], piece) for piece in cut.pieces.values()]

    def close(self) -> None:
        for session in (self.uncut, *self.segments):
            session.close()


def measure(payloads: Payloads, tensors: list[np.ndarray]) -> dict[str, Any]:
    """Medians over photos and rounds; the two sides take turns, photo by photo."""
    clock = time.process_time_ns
    times: list[list[int]] = []
    worst = equal = 0
    for turn in range(ROUNDS):
        for x in tensors:
            begun = clock()
            wanted = payloads.uncut.run(x)[0]
            marks = [begun, clock()]
            carried: tuple[np.ndarray, ...] = (x,)
            for session in payloads.segments:
                logits, *carried = session.run(*carried)
                marks.append(clock())
            times.append(np.diff(marks).tolist())
            off = int(np.abs(wanted.astype(int) - logits.astype(int)).max())
            worst, equal = max(worst, off), equal + (turn == 0 and off == 0)
    taken = np.array(times[len(tensors) // 4 :]) / 1e6
    uncut = float(np.median(taken[:, 0]))
    return {
        "photos": len(tensors),
        "equal": equal,
        "largest_steps": worst,
        "uncut_ms": round(uncut, 3),
        "shares": [round(float(np.median(column)) / uncut, 3) for column in taken[:, 1:].T],
        "overhead": round(float(np.median(taken[:, 1:].sum(1) / taken[:, 0])) - 1, 4),
        "growth": round(payloads.growth, 4),
    }


def rows(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    network, facts = staged_network(arguments)
    example = (torch.zeros(1, 3, facts.resolution_px, facts.resolution_px),)
    program = torch.export.export(network, example, strict=False)
    _, parts = choose_splits(arguments.data, seed=0, trains=False)
    quantized = quantize(program, batches(parts.fit.take(CALIBRATION, 0), facts))
    photos = list(
        parts.report.take(arguments.photos, 0).iter_images(
            resolution_px=facts.resolution_px, resize_px=facts.resize_px, filter=facts.filter
        )
    )
    uncut, cut = whole(quantized), segments(quantized)
    found = []
    for engine in ENGINES:
        with tempfile.TemporaryDirectory() as folder:
            payloads = Payloads(engine, uncut, cut, Path(folder))
            table = make_table(facts.preprocess, payloads.entry)
            tensors = [apply_table(photo, table, layout=payloads.entry.layout) for photo in photos]
            found.append({"engine": engine, **measure(payloads, tensors)})
            payloads.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="efficientnet_lite0", help="a name from `edgekit models`")
    parser.add_argument("--weights", type=Path, help="file, or checkpoint of edgekit fit; those of its package if left out")
    parser.add_argument("--data", type=Path, required=True, help="folder of photos")
    parser.add_argument("--exits", default="", help="modules to cut behind, with commas; the model's own if left out")
    parser.add_argument("--hidden", type=int, default=HIDDEN, help="channels of an exit's convolution")
    parser.add_argument("--photos", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = rows(arguments)
    if arguments.json:
        print(json.dumps({"results": found}, indent=2))
    else:
        print(f"{'engine':<12}{'equal':>9}{'steps':>7}{'uncut ms':>10}{'overhead':>10}{'growth':>8}  shares of the time")
        for row in found:
            equal = f"{row['equal']}/{row['photos']}"
            shares = " ".join(f"{share:.3f}" for share in row["shares"])
            print(
                f"{row['engine']:<12}{equal:>9}{row['largest_steps']:>7}{row['uncut_ms']:>10}{row['overhead']:>10.1%}"
                f"{row['growth']:>8.1%}  {shares}"
            )
    kept = all(r["equal"] == r["photos"] and r["growth"] <= MOST_GROWTH and r["overhead"] <= MOST_OVERHEAD for r in found)
    return 0 if kept else 3


if __name__ == "__main__":
    sys.exit(main())

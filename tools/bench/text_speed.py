"""How fast INT8 payloads of text networks are against fp32 ones, on each engine.

```
python tools/bench/text_speed.py --model minilm_l6 --model mobilebert [--folder DIR] [--tokens 64 128] [-o report.json]
```

Without `--folder` (a Hugging Face folder, for the first model) weights are random, which the table says: their speed is real,
their answers are not. Both payloads of an engine run in turn, round by round, so that whatever slows the machine slows both.
Times are process CPU time, medians, with the 95 % interval of their ratio.
"""

import argparse
import contextlib
import dataclasses
import hashlib
import importlib
import importlib.metadata
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgekit.bench.conditions import conditions, cpu_model
from edgekit.bench.stats import ratio_of_medians
from edgekit.spec.report import Measurement, Report, write_report

ENGINES = ("executorch", "litert", "onnx")
DISTRIBUTIONS = {"executorch": "executorch", "litert": "ai-edge-litert", "onnx": "onnxruntime"}
WARM_UP, OUTPUTS = 5, 77

COLUMNS = (
    "model (weights) | tokens | threads | engine | fp32 ms | INT8 ms | ratio (95 %) | delegate calls | size | integers | outside"
)

Call = Callable[[np.ndarray, np.ndarray], Any]


@dataclass(frozen=True, slots=True)
class Row:
    """One model, length and engine; times in ms of CPU."""

    model: str
    weights: str
    tokens: int
    engine: str
    fp32_ms: float
    int8_ms: float
    ratio: float
    interval: tuple[float, float]
    delegate_calls: int | None
    outside: str
    size_ratio: float
    same: str


def call_executorch(path: Path, tokens: int, threads: int) -> Call:
    import torch
    from executorch.extension.pybindings import _C

    if _C._threadpool_get_thread_count() != threads:
        _C._unsafe_reset_threadpool(threads)
    program = _C._load_program(str(path))
    method = program.load_method(f"tokens_{tokens}")

    def call(ids: np.ndarray, keep: np.ndarray) -> Any:
        return method([torch.from_numpy(ids), torch.from_numpy(keep)])[0].numpy()

    return call


def call_litert(path: Path, tokens: int, threads: int) -> Call:
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(model_path=str(path), num_threads=threads).get_signature_runner(f"tokens_{tokens}")
    return lambda ids, keep: runner(args_0=ids.astype(np.int32), args_1=keep)["output_0"]


def call_onnx(path: Path, tokens: int, threads: int) -> Call:
    import onnxruntime

    del tokens
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda ids, keep: session.run(None, {"ids": ids, "keep": keep})[0]


CALLS = {"executorch": call_executorch, "litert": call_litert, "onnx": call_onnx}


def placement(engine: str, path: Path, tokens: int) -> tuple[int | None, str]:
    """-> delegate calls of a bucket (LiteRT: of the first), and the operators that no delegate takes."""
    if engine == "executorch":
        from edgekit.runtime.engines.pte import read_plans

        plan = next(p for p in read_plans(path.read_bytes()) if p.name == f"tokens_{tokens}")
        return len(plan.delegate_calls), _counted(Counter(plan.kernel_calls))
    if engine == "litert":
        from ai_edge_litert.interpreter import Interpreter

        from edgekit.runtime.engines.litert import operators

        interpreter = Interpreter(model_path=str(path), num_threads=1)
        interpreter.allocate_tensors()
        calls = sum(op["op_name"] == "DELEGATE" for op in interpreter._get_ops_details())
        return calls, _counted(Counter({o.type: o.count for o in operators(path) if not o.delegate}))
    return None, ""


def _counted(kinds: Counter[str]) -> str:
    return ", ".join(f"{count} {kind.split('::')[-1]}" for kind, count in sorted(kinds.items()))


def timed(paths: tuple[Path, Path], engine: str, tokens: int, *, threads: int, runs: int) -> np.ndarray:
    """-> (2, runs) ms of CPU, round by round."""
    generator = np.random.default_rng(0)
    used = tokens - tokens // 8
    ids, keep = generator.integers(1000, 20000, (1, tokens)), np.zeros((1, tokens), np.float32)
    ids[:, used:], keep[:, :used] = 0, 1
    calls = [CALLS[engine](path, tokens, threads) for path in paths]
    times = np.zeros((len(calls), runs + WARM_UP))
    for turn in range(runs + WARM_UP):
        for index, call in enumerate(calls):
            begun = time.process_time_ns()
            call(ids, keep)
            times[index, turn] = (time.process_time_ns() - begun) / 1e6
    return times[:, WARM_UP:]


def network_of(model: str, folder: Path | None, *, layers: int | None) -> tuple[Any, str]:
    """-> what is exported, and where its weights came from; `layers` cuts a network of random weights short."""
    import torch

    from edgekit.build.text.config import CONFIGS, read_config
    from edgekit.build.text.network import TextNetwork
    from edgekit.build.text.rewrite import rewrite
    from edgekit.build.text.weights import load_weights

    torch.manual_seed(0)
    torch.set_num_threads(1)
    config = read_config(folder) if folder else CONFIGS[model]
    cut = "" if folder or not layers else f", {layers} of {config.layers} layers"
    network = TextNetwork(dataclasses.replace(config, layers=layers) if cut else config, OUTPUTS).eval()
    if folder:
        load_weights(network, folder)
    return rewrite(network), "given, random head" if folder else f"random{cut}"


def compare(model: str, folder: Path | None, arguments: argparse.Namespace) -> Iterator[Row]:
    """Build both payloads of each engine, then time them."""
    from edgekit.build.text.integers import TABLE, matched, snap

    plain, weights = network_of(model, folder, layers=arguments.layers)
    tokens = tuple(arguments.tokens)
    lowerings = {engine: importlib.import_module(f"edgekit.build.text.lower_{engine}") for engine in arguments.engine or ENGINES}
    with tempfile.TemporaryDirectory() as place:
        paths = {engine: (Path(place) / f"{engine}.fp32", Path(place) / f"{engine}.int8") for engine in lowerings}
        for engine, code in lowerings.items():
            paths[engine][0].write_bytes(code.lower(plain, tokens=tokens, precision="fp32").payload)
        grids = snap(plain)
        for engine, code in lowerings.items():
            payload = code.lower(plain, tokens=tokens, precision="int8").payload
            paths[engine][1].write_bytes(payload)
            names = matched(code.weights_of(payload), grids)
            same = f"{sum(name != TABLE for name in names)} of {len(grids) - 1}" + (" + table" if TABLE in names else "")
            for n in tokens:
                times = timed(paths[engine], engine, n, threads=arguments.threads, runs=arguments.runs)
                ratio, interval = ratio_of_medians(times[1], times[0])
                medians = np.median(times, axis=1)
                sizes = [path.stat().st_size for path in paths[engine]]
                calls, outside = placement(engine, paths[engine][1], n)
                row = (
                    model,
                    weights,
                    n,
                    engine,
                    *map(float, medians),
                    ratio,
                    interval,
                    calls,
                    outside,
                    sizes[1] / sizes[0],
                    same,
                )
                yield Row(*row)


def show(row: Row, threads: int) -> None:
    """One line of the table."""
    low, high = row.interval
    calls = "-" if row.delegate_calls is None else row.delegate_calls
    print(
        f"| {row.model} ({row.weights}) | {row.tokens} | {threads} | {row.engine} | {row.fp32_ms:.2f} | {row.int8_ms:.2f} "
        f"| {row.ratio:.3f} ({low:.3f} to {high:.3f}) | {calls} | {row.size_ratio:.3f} | {row.same} | {row.outside or '-'} |",
        flush=True,
    )


def report_of(rows: list[Row], arguments: argparse.Namespace) -> Report:
    """All rows as one report; there is no bundle, so its digest is that of the figures."""
    measurements = []
    for row in rows:
        base = f"{row.model}/{row.tokens}/{row.engine}"
        measurements += [
            Measurement(f"{base}/ratio", row.ratio, "1", arguments.runs, row.interval),
            Measurement(f"{base}/fp32_cpu", row.fp32_ms, "ms", arguments.runs),
            Measurement(f"{base}/int8_cpu", row.int8_ms, "ms", arguments.runs),
            Measurement(f"{base}/size_ratio", row.size_ratio, "1", 1),
        ]
        if row.delegate_calls is not None:
            measurements.append(Measurement(f"{base}/delegate_calls", row.delegate_calls, "1", 1))
    versions = {name: importlib.metadata.version(name) for name in DISTRIBUTIONS.values()}
    known = conditions(threads=arguments.threads, runs=arguments.runs, engines=versions)
    weights = {f"weights of {row.model}": row.weights for row in rows}
    digest = hashlib.sha256(repr(rows).encode()).hexdigest()
    date = {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    return Report(
        digest,
        "host",
        "+".join(sorted({row.engine for row in rows})),
        cpu_model(),
        dict(known) | weights | date,
        tuple(measurements),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", help="a name of edgekit.build.text.config.CONFIGS; may be repeated")
    parser.add_argument("--folder", type=Path, help="a Hugging Face folder with the weights of the first model")
    parser.add_argument("--layers", type=int, help="only so many layers of models with random weights")
    parser.add_argument("--engine", action="append", choices=ENGINES)
    parser.add_argument("--tokens", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("-o", "--out", type=Path, help="write a report here")
    arguments = parser.parse_args()
    rows = []
    print(f"| {COLUMNS} |")
    print("|---" * (COLUMNS.count("|") + 1) + "|")
    for index, model in enumerate(arguments.model or ["minilm_l6", "mobilebert", "bert_base"]):
        for row in compare(model, None if index else arguments.folder, arguments):
            rows.append(row)
            show(row, arguments.threads)
    if arguments.out:
        write_report(report_of(rows, arguments), arguments.out)
    return 0


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())

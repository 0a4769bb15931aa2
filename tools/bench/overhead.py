"""What the runtime adds to a call of the bare engine, on the same payload and input, in turn.

```
edgekit build --target host --out bundles/overhead
python tools/bench/overhead.py bundles/overhead [--runs 200] [--json]
```

Both sides get the finished input tensor: preprocessing is left aside. Process CPU time, one thread, median of `--runs`.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from edgekit.runtime.loaded import load_payload
from edgekit.spec.bundle import open_bundle

MOST_US, MOST_SHARE = 50.0, 0.02


def bare_litert(path: Path) -> Callable[[np.ndarray], Any]:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(path), num_threads=1)
    interpreter.allocate_tensors()
    source, result = interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]

    def call(x: np.ndarray) -> Any:
        interpreter.set_tensor(source, x)
        interpreter.invoke()
        return interpreter.get_tensor(result)

    return call


def bare_onnx(path: Path) -> Callable[[np.ndarray], Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})


def bare_executorch(path: Path) -> Callable[[np.ndarray], Any]:
    import torch
    from executorch.extension.pybindings import _C

    program = _C._load_program(str(path))
    method = program.load_method("forward")
    return lambda x: method([torch.from_numpy(x)])[0].numpy()


BARE = {"litert": bare_litert, "onnx": bare_onnx, "executorch": bare_executorch}


def compare(bundle: Path, runs: int) -> list[dict[str, Any]]:
    """A row for each payload: median CPU time of both sides and what the runtime adds."""
    rows = []
    with open_bundle(bundle) as reader:
        for payload in reader.manifest.payloads:
            loaded = load_payload(reader, payload, threads=1)
            rung = loaded.steps[-1].rung.name
            tensor = loaded.golden_tensors(reader)[rung]
            sides = (BARE[payload.engine](reader.file(payload.entries[-1].file)), loaded.walk_to(rung))
            times: tuple[list[int], list[int]] = ([], [])
            for _ in range(runs + 10):
                for side, kept in zip(sides, times, strict=True):
                    begun = time.process_time_ns()
                    side(tensor)
                    kept.append(time.process_time_ns() - begun)
            bare, wrapped = (float(np.median(kept[10:])) / 1e3 for kept in times)
            added = wrapped - bare
            rows.append(
                {
                    "payload": payload.id,
                    "n": runs,
                    "bare_us": round(bare, 1),
                    "runtime_us": round(wrapped, 1),
                    "added_us": round(added, 1),
                    "added_share": round(added / bare, 4),
                    "ok": added <= MOST_US or added <= MOST_SHARE * bare,
                }
            )
            loaded.close()
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = compare(arguments.bundle, arguments.runs)
    if arguments.json:
        print(json.dumps({"results": rows}, indent=2))
    else:
        print(f"{'payload':<18}{'bare us':>10}{'runtime us':>12}{'added us':>10}{'share':>8}")
        for row in rows:
            print(
                f"{row['payload']:<18}{row['bare_us']:>10}{row['runtime_us']:>12}{row['added_us']:>10}{row['added_share']:>8.2%}"
            )
    return 0 if all(row["ok"] for row in rows) else 3


if __name__ == "__main__":
    sys.exit(main())

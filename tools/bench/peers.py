"""Hold edgekit's INT8 payloads against what others make of the same network, the same photos for calibration, this machine.

```
edgekit build efficientnet_lite0 --target host --precision int8,fp32 --out bundles/peers
python tools/bench/peers.py bundles/peers --data DIR_WITH_LABELS
```

The peers start from the bundle's own fp32 payloads: onnxruntime's quantize_static (U8S8, per channel) from the ONNX file and
ai-edge-quantizer's static_wi8_ai8 from the TFLite file. Times are process CPU time, one thread, all networks in turn.
"""

import argparse
import contextlib
import dataclasses
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgekit.bench.lanes import Lane, answers, open_lanes
from edgekit.bench.local import measure
from edgekit.bench.stats import drop_interval, ratio_of_medians
from edgekit.build.data import Dataset, open_data, open_parts
from edgekit.runtime.engines import find
from edgekit.runtime.pixels import apply_table, make_table
from edgekit.spec.manifest import Entry, Manifest, TensorSpec, to_json

PEERS = {"onnx": "onnxruntime quantize_static", "litert": "ai-edge-quantizer static_wi8_ai8"}


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One network of the comparison; the figures against edgekit only in rows of a peer.

    Attributes:
        engine: that runs it.
        made_by: edgekit or the peer.
        cpu_ms: median CPU time.
        size_bytes: of the file.
        top1: share of photos with the right class; None without labels.
        agreement_float: share of photos with the fp32 payload's class.
        ratio: CPU time of the peer / CPU time of edgekit's payload; above 1 edgekit is faster.
        ratio_interval: 95 %.
        gain_pp: top-1 of edgekit less that of the peer, in points.
        gain_interval_pp: 95 %, paired.
    """

    engine: str
    made_by: str
    cpu_ms: float
    size_bytes: int
    top1: float | None
    agreement_float: float
    ratio: float | None = None
    ratio_interval: tuple[float, float] | None = None
    gain_pp: float | None = None
    gain_interval_pp: tuple[float, float] | None = None


def main() -> None:
    """Compare, print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundle", type=Path, help="with int8 payloads")
    parser.add_argument("--float", type=Path, dest="float_bundle", help="bundle with fp32 payloads [BUNDLE]")
    parser.add_argument("--data", type=Path, help="photos to judge on [sample photos]")
    parser.add_argument("--calibration", type=Path, help="photos to calibrate the peers on [those of a build without --data]")
    parser.add_argument("--photos", type=int, default=128, help="so many photos to calibrate on [128]")
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    calibration, judging = open_parts(args.calibration, calibration=args.photos, judging=128)
    data = judging if args.data is None else open_data(args.data)
    rows = compare(args.bundle, args.float_bundle or args.bundle, calibration, data, args.runs)
    if args.json:
        print(json.dumps({"n": len(data), "runs": args.runs, "rows": to_json(rows)}))
    else:
        print_table(rows, len(data))


def compare(bundle: Path, float_bundle: Path, calibration: Dataset, data: Dataset, runs: int) -> tuple[Row, ...]:
    """Quantize with each peer, time and judge all."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ours = by_engine(stack.enter_context(open_lanes(bundle, engines=PEERS)).lanes, "int8")
        opened = stack.enter_context(open_lanes(float_bundle, engines=PEERS))
        floats = by_engine(opened.lanes, "fp32")
        engines = [e for e in PEERS if e in ours and e in floats]
        if not engines:
            sys.exit("peers: no engine has both an int8 and an fp32 payload; build with --precision int8,fp32")
        photos = images(calibration, opened.reader.manifest)
        manifest, file = opened.reader.manifest, opened.reader.file
        theirs = {e: peer(floats[e], manifest, file(floats[e].entry.file), folder, photos) for e in engines}
        lanes = [lane for e in engines for lane in (ours[e], theirs[e], floats[e])]
        cpu_ms, _ = measure(lanes, runs)
        logits = answers(lanes, images(data, opened.reader.manifest))
        sizes = [size_bytes(ours[e], theirs[e], folder) for e in engines]
        labels = None if data.labels is None else np.asarray(data.labels)
        rows: list[Row] = []
        for i, engine in enumerate(engines):
            part = slice(3 * i, 3 * i + 3)
            rows += rows_of(engine, cpu_ms[part], logits[part], labels, sizes[i])
        return tuple(rows)


def by_engine(lanes: Sequence[Lane], precision: str) -> dict[str, Lane]:
    """Lanes of one precision."""
    return {lane.payload.engine: lane for lane in lanes if lane.payload.precision == precision}


def images(data: Dataset, manifest: Manifest) -> np.ndarray:
    """(n, height, width, 3) uint8."""
    rung = manifest.rungs[-1]
    return data.images(resolution_px=rung.resolution_px, resize_px=rung.resize_px, filter=manifest.preprocess.filter)


def peer(lane: Lane, manifest: Manifest, source: Path, folder: Path, photos: np.ndarray) -> Lane:
    """The fp32 lane, quantized by the peer of its engine."""
    engine = lane.payload.engine
    made = folder / f"{engine}{source.suffix}"
    layout = lane.entry.inputs[0].layout
    with contextlib.redirect_stdout(sys.stderr):  # stdout is for the result
        QUANTIZERS[engine](source, made, [lane.prepare(p)[0] for p in photos])
    entry = integer_edges(made, lane.entry) if engine == "litert" else lane.entry
    table = make_table(manifest.preprocess, entry.inputs[0])

    def prepare(pixels: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.asarray(apply_table(pixels, table, layout=layout)),)

    return dataclasses.replace(
        lane,
        payload=dataclasses.replace(lane.payload, id=PEERS[engine], precision="int8"),
        entry=entry,
        session=find(engine).load(made, entry, threads=1),
        prepare=prepare,
        sample=prepare(photos[0]),
    )


def integer_edges(made: Path, entry: Entry) -> Entry:
    """The entry with dtype and quantization that the TFLite file has at its edges; the ONNX peer takes and gives floats."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(made))

    def like(spec: TensorSpec, detail: dict[str, Any]) -> TensorSpec:
        scale, zero_point = detail["quantization"]
        quantization = {"scale": float(scale), "zero_point": int(zero_point)} if scale else {}
        return dataclasses.replace(spec, dtype=np.dtype(detail["dtype"]).name, **quantization)

    return dataclasses.replace(
        entry,
        inputs=(like(entry.inputs[0], interpreter.get_input_details()[0]),),
        outputs=(like(entry.outputs[0], interpreter.get_output_details()[0]),),
    )


def quantize_onnx(source: Path, made: Path, inputs: Sequence[np.ndarray]) -> None:
    """Onnxruntime's recommended way for x86: pre-process, then U8S8 QDQ with weights per channel."""
    import onnxruntime
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):
        def __init__(self, name: str) -> None:
            self.rest = iter([{name: x} for x in inputs])

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.rest, None)

    ready = made.with_suffix(".pre.onnx")
    quant_pre_process(str(source), str(ready))
    name = onnxruntime.InferenceSession(str(ready), providers=["CPUExecutionProvider"]).get_inputs()[0].name
    quantize_static(
        str(ready),
        str(made),
        Reader(name),
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )


def quantize_litert(source: Path, made: Path, inputs: Sequence[np.ndarray]) -> None:
    """ai-edge-quantizer's own recipe for static INT8."""
    from ai_edge_litert.interpreter import Interpreter
    from ai_edge_quantizer import quantizer, recipe

    ((signature, tensors),) = Interpreter(str(source)).get_signature_list().items()
    (name,) = tensors["inputs"]
    work = quantizer.Quantizer(str(source), recipe.static_wi8_ai8())
    found = work.calibrate({signature: [{name: x} for x in inputs]}, num_threads=1)
    work.quantize(found).export_model(str(made))


QUANTIZERS: Mapping[str, Callable[[Path, Path, Sequence[np.ndarray]], None]] = {
    "onnx": quantize_onnx,
    "litert": quantize_litert,
}


def size_bytes(ours: Lane, theirs: Lane, folder: Path) -> tuple[int, int]:
    """Sizes of both files."""
    with open_lanes(ours.bundle, payloads=(ours.payload.id,)) as opened:
        mine = opened.reader.files[ours.entry.file].size_bytes
    (made,) = (p for p in folder.glob(f"{theirs.payload.engine}.*") if ".pre." not in p.name)
    return mine, made.stat().st_size


def rows_of(
    engine: str, cpu_ms: np.ndarray, logits: Sequence[np.ndarray], labels: np.ndarray | None, sizes: tuple[int, int]
) -> list[Row]:
    """(3, runs) times and outputs of ours, the peer's, fp32 -> two rows."""
    mine, other, wanted = (np.argmax(values, axis=1) for values in logits)
    ratio, ratio_interval = ratio_of_medians(cpu_ms[1], cpu_ms[0])
    gain = gain_interval = None
    if labels is not None:
        drop, (low, high) = drop_interval(mine == labels, other == labels)
        gain, gain_interval = 100 * drop, (100 * low, 100 * high)

    def row(made_by: str, at: int, best: np.ndarray) -> Row:
        top1 = None if labels is None else float(np.mean(best == labels))
        return Row(engine, made_by, float(np.median(cpu_ms[at])), sizes[at], top1, float(np.mean(best == wanted)))

    theirs = dataclasses.replace(
        row(PEERS[engine], 1, other),
        ratio=ratio,
        ratio_interval=ratio_interval,
        gain_pp=gain,
        gain_interval_pp=gain_interval,
    )
    return [row("edgekit", 0, mine), theirs]


def print_table(rows: Sequence[Row], n: int) -> None:
    """A table for people."""
    print(
        f"{'engine':8} {'made by':34} {'CPU ms':>7} {'MB':>5} {'top-1':>6} {'agree':>6}  edgekit against it (95 %)  [{n} photos]"
    )
    for r in rows:
        against = ""
        if r.ratio is not None and r.ratio_interval is not None:
            against = f"{r.ratio:.2f}x faster ({r.ratio_interval[0]:.2f}..{r.ratio_interval[1]:.2f})"
        if r.gain_pp is not None and r.gain_interval_pp is not None:
            against += f", {r.gain_pp:+.1f} points ({r.gain_interval_pp[0]:+.1f}..{r.gain_interval_pp[1]:+.1f})"
        top1 = "-" if r.top1 is None else f"{r.top1:.3f}"
        print(
            f"{r.engine:8} {r.made_by:34} {r.cpu_ms:7.2f} {r.size_bytes / 1e6:5.2f} {top1:>6} {r.agreement_float:6.3f}  {against}"
        )


if __name__ == "__main__":
    main()

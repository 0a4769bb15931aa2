"""`judge`: a bundle -> a report: goldens, agreement with the float network and between payloads, latency on this machine."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from edgekit.bench import PairResult, verify_bundle
from edgekit.bench.lanes import answers, open_lanes
from edgekit.bench.local import measure
from edgekit.build.artifact import Artifact
from edgekit.build.data import Dataset
from edgekit.build.facts import read_facts
from edgekit.build.likeness import check_alike
from edgekit.build.photos import Photos
from edgekit.build.pipeline import Progress
from edgekit.build.stages.export import PROGRAM
from edgekit.build.stages.load import RANDOM
from edgekit.build.stages.quantize import is_dynamic
from edgekit.spec import codec
from edgekit.spec.errors import GoalError
from edgekit.spec.manifest import Manifest

__all__ = ["REPORT", "Judge"]

REPORT = "judged.json"
RUNS = 20

ALIKE_LIMIT = 256
"""Payloads of float outputs run once more on so many photos: what `verify_bundle` tells of them are no distances."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Prove the bundle here, before anybody is given it.

    Attributes:
        program: the float program: what the payloads are held against.
        quantized: the quantized program, to find the layer where payloads part; None without INT8.
        photos: those for judging are used here.
        machine: what latencies depend on: processor and engine versions.
    """

    program: Artifact
    quantized: Artifact | None
    photos: Photos
    machine: Mapping[str, str]

    name: ClassVar[str] = "judge"
    version: ClassVar[int] = 2
    accepts: ClassVar[str] = "bundle"
    returns: ClassVar[str] = "report"
    tools: ClassVar[tuple[str, ...]] = ("torch", "executorch", "onnxruntime", "ai-edge-litert")

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write `judged.json`.

        Raises:
            GoalError: `goldens` or `parity`.
        """
        _, judging = self.photos.open()
        progress(0.05, f"judging on {len(judging)} photos")
        verified = verify_bundle(source.path, data=judging, float_logits=self._float_logits)
        if not verified.ok:
            failed = [name for name, result in verified.engines.items() if not result.goldens]
            raise GoalError(
                f"golden vectors fail on {', '.join(failed)}", where=failed[0], fix="run edgekit doctor", code="goldens"
            )
        report: dict[str, Any] = {"verify": codec.to_json(verified)}
        if self.quantized is not None and is_dynamic(self.quantized.path):
            progress(0.5, "comparing the logits of INT8 payloads")
            report["likeness"] = self._check_floats(source, judging)
        else:
            self._check_integers(verified.pairs)
        progress(0.6, f"timing {RUNS} runs of each payload")
        with open_lanes(source.path, threads=1) as opened:
            _, wall_ms = measure(opened.lanes, RUNS)
            report["latency_ms"] = {
                lane.payload.id: float(np.median(row)) for lane, row in zip(opened.lanes, wall_ms, strict=True)
            }
        (out / REPORT).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")

    def _check_integers(self, pairs: Iterable[PairResult]) -> None:
        from edgekit.build.gates import Pair, check_pairs

        integer = [
            Pair(p.a, p.b, p.agreement_top1, p.mean_steps, p.max_steps)
            for p in pairs
            if p.a.endswith("-int8") and p.b.endswith("-int8")
        ]
        check_pairs(integer, worst_layer=self._worst_layer)

    def _check_floats(self, source: Artifact, judging: Dataset) -> dict[str, dict[str, float]]:
        """Payload, or pair of payloads -> how alike they are to the float network, or to each other."""
        facts = read_facts(self.program.path)
        photos = judging.take(ALIKE_LIMIT, self.photos.seed)
        size = {"resolution_px": facts.resolution_px, "resize_px": facts.resize_px}
        images = list(photos.iter_images(**size, filter=facts.filter))
        with open_lanes(source.path, threads=1) as opened:
            lanes = [lane for lane in opened.lanes if lane.payload.precision == "int8"]
            outputs = {lane.payload.id: rows for lane, rows in zip(lanes, answers(lanes, images), strict=True)}
            reference = self._float_logits(opened.reader.manifest, np.stack(images))
        found = check_alike(outputs, reference=reference, trained=facts.weights != RANDOM)
        return {name: asdict(each) for name, each in found.items()}

    def _float_logits(self, manifest: Manifest, pixels: np.ndarray) -> np.ndarray:
        from edgekit.build import programs
        from edgekit.build.tensors import to_tensor

        del manifest
        facts = read_facts(self.program.path)
        return programs.run_each(programs.load(self.program.path / PROGRAM), to_tensor(pixels, facts)).numpy()

    def _worst_layer(self, pair: object) -> str:
        from edgekit.build.gates import Pair
        from edgekit.build.parting import first_parting
        from edgekit.build.stages.quantize import read_quantized

        if self.quantized is None or not isinstance(pair, Pair):
            return ""
        _, judging = self.photos.open()
        facts = read_facts(self.program.path)
        image = next(judging.iter_images(resolution_px=facts.resolution_px, resize_px=facts.resize_px, filter=facts.filter))
        engines = (pair.a.removesuffix("-int8"), pair.b.removesuffix("-int8"))
        return first_parting(read_quantized(self.quantized.path), engines, image, facts)

"""`judge`: a bundle -> a report: goldens, agreement with the float network and between payloads, latency on this machine."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from edgekit.bench import verify_bundle
from edgekit.bench.lanes import open_lanes
from edgekit.bench.local import measure
from edgekit.build.artifact import Artifact
from edgekit.build.facts import read_facts
from edgekit.build.photos import Photos
from edgekit.build.pipeline import Progress
from edgekit.build.stages.export import PROGRAM
from edgekit.spec import codec
from edgekit.spec.errors import GoalError
from edgekit.spec.manifest import Manifest

__all__ = ["REPORT", "Judge"]

REPORT = "judged.json"
RUNS = 20


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
        from edgekit.build.gates import Pair, check_pairs

        _, judging = self.photos.open()
        progress(0.05, f"judging on {len(judging)} photos")
        verified = verify_bundle(source.path, data=judging, float_logits=self._float_logits)
        if not verified.ok:
            failed = [name for name, result in verified.engines.items() if not result.goldens]
            raise GoalError(
                f"golden vectors fail on {', '.join(failed)}", where=failed[0], fix="run edgekit doctor", code="goldens"
            )
        integer = [
            Pair(p.a, p.b, p.agreement_top1, p.mean_steps, p.max_steps)
            for p in verified.pairs
            if p.a.endswith("-int8") and p.b.endswith("-int8")
        ]
        check_pairs(integer, worst_layer=self._worst_layer)
        progress(0.6, f"timing {RUNS} runs of each payload")
        with open_lanes(source.path, threads=1) as opened:
            _, wall_ms = measure(opened.lanes, RUNS)
            latency_ms = {lane.payload.id: float(np.median(row)) for lane, row in zip(opened.lanes, wall_ms, strict=True)}
        report = {"verify": codec.to_json(verified), "latency_ms": latency_ms}
        (out / REPORT).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")

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

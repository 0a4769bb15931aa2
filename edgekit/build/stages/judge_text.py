"""`judge-text`: the bundle of a network that reads text -> a report: goldens, agreement, drop, latency on this machine."""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from edgekit.bench.judged import EngineResult, judge
from edgekit.build.artifact import Artifact
from edgekit.build.likeness import Likeness, best_of, check_alike
from edgekit.build.pipeline import Progress
from edgekit.build.stages.answer import FLOAT, read_answers
from edgekit.build.stages.judge import REPORT
from edgekit.build.text.facts import EMBEDDING, read_text_facts
from edgekit.build.text.running import PayloadRunner
from edgekit.spec import codec
from edgekit.spec.bundle import BundleReader, open_bundle
from edgekit.spec.errors import GoalError
from edgekit.spec.manifest import Payload

__all__ = ["JudgeText"]

RUNS = 20


@dataclass(frozen=True, slots=True)
class JudgeText:
    """Prove the bundle here, before anybody is given it.

    Attributes:
        checkpoint: the float network.
        reference: its answers to the texts to report on.
        answers: the payloads'.
        machine: what latencies depend on.
    """

    checkpoint: Artifact
    reference: Artifact
    answers: Artifact
    machine: Mapping[str, str]

    name: ClassVar[str] = "judge-text"
    version: ClassVar[int] = 1
    accepts: ClassVar[str] = "bundle"
    returns: ClassVar[str] = "report"
    tools: ClassVar[tuple[str, ...]] = ("executorch", "onnxruntime", "ai-edge-litert", "numpy")

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write `judged.json`.

        Raises:
            GoalError: `goldens` or `parity`.
        """
        facts = read_text_facts(self.checkpoint.path)
        embeds, trained = facts.task == EMBEDDING, bool(facts.weights_sha256)
        wanted, found = read_answers(self.reference.path), read_answers(self.answers.path)
        float_logits = wanted.logits[FLOAT]
        best = best_of(float_logits, embeds=embeds)
        alike: dict[str, Likeness] = {}
        engines, latency_ms = {}, {}
        with open_bundle(source.path) as reader:
            payloads = reader.manifest.payloads
            for i, payload in enumerate(payloads):
                progress(i / len(payloads), f"proving {payload.id}")
                with PayloadRunner(payload, reader.file, pad=reader.manifest.text.pad) as runner:
                    worst = _goldens(reader, payload, runner)
                    latency_ms[payload.id] = _latency_ms(payload, runner)
                result = EngineResult(payload.id, payload.precision, payload.placement.delegate, True, worst)
                given = found.logits[payload.id]
                alike |= check_alike({payload.id: given}, reference=float_logits, trained=trained, embeds=embeds, of="texts")
                # Judged by its best answers, which for an embedding are no outputs.
                picked = np.eye(max(float_logits.shape[1], len(best)))[best_of(given, embeds=embeds)]
                engines[payload.id] = codec.to_json(judge(result, picked, wanted.labels, best))
        int8 = {payload.id: found.logits[payload.id] for payload in payloads if payload.precision == "int8"}
        alike |= check_alike(int8, trained=trained, embeds=embeds, of="texts")
        distances = {name: asdict(each) for name, each in alike.items()}
        report = {"verify": {"engines": engines}, "latency_ms": latency_ms, "likeness": distances}
        (out / REPORT).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _goldens(reader: BundleReader, payload: Payload, runner: PayloadRunner) -> float:
    """Largest difference to the golden outputs."""
    inputs = {golden.shape[1]: golden for golden in reader.manifest.golden_inputs}
    worst = 0.0
    for golden in payload.goldens:
        tokens = golden.tokens or 0
        entry = next(e for e in payload.entries if (e.rung, e.tokens) == (golden.rung, tokens))
        ids = np.frombuffer(reader.read(inputs[tokens].file), "<i4").reshape(inputs[tokens].shape)
        expected = np.frombuffer(reader.read(golden.file), "<f4").reshape(golden.shape)
        for row, wanted in zip(ids, expected, strict=True):
            far = float(np.abs(runner.run(entry, row[row >= 0]) - wanted).max())
            if far > golden.tolerance:
                raise GoalError(
                    f"golden vectors of {tokens} tokens fail on {payload.id}: {far:.3g} away, {golden.tolerance:.3g} allowed",
                    where=payload.id,
                    fix="run edgekit doctor",
                    code="goldens",
                )
            worst = max(worst, far)
    return worst


def _latency_ms(payload: Payload, runner: PayloadRunner) -> float:
    """Median of the largest bucket, filled, through all rungs."""
    entry = payload.entries[-1]
    ids = [1] * entry.tokens
    times = []
    for _ in range(RUNS + 2):
        begun = time.perf_counter()
        runner.run(entry, ids)
        times.append(1e3 * (time.perf_counter() - begun))
    return float(np.median(times[2:]))

"""`pack-text`: payloads of a network that reads text -> a bundle, with tokenizer, labels, golden vectors and provenance."""

import dataclasses
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from edgekit.build.artifact import Artifact
from edgekit.build.likeness import INT8_TOLERANCE
from edgekit.build.pipeline import Progress
from edgekit.build.stages.lower import read_payload
from edgekit.build.stages.lower_text import RUNG
from edgekit.build.text.facts import TextFacts, read_text_facts
from edgekit.build.text.running import PayloadRunner
from edgekit.build.text.samples import SAMPLES
from edgekit.spec.bundle import write_bundle
from edgekit.spec.manifest import FORMAT, Entry, GoldenInputs, GoldenOutputs, Manifest, ModelInfo, Payload, Rung, TargetInfo, Text

__all__ = ["PackText"]

TOLERANCE = {"fp32": 1e-3, "fp16": 2e-2}
"""Shares of the largest golden output; INT8 has `INT8_TOLERANCE`."""

TOKENIZER, VOCABULARY, EXAMPLES = "tokenizer/tokenizer.json", "tokenizer/vocab.txt", "tokenizer/examples.json"
GOLDENS_EACH = 4


@dataclass(frozen=True, slots=True)
class PackText:
    """Assemble the bundle.

    Attributes:
        payloads: what the lowering stages made, in the order of preference.
        target: the device and its engines.
        provenance: how the bundle came about.
        rungs: of a ladder, in the order of the payloads' entries; empty for the single rung of an uncut network.
    """

    payloads: tuple[Artifact, ...]
    target: TargetInfo
    provenance: Mapping[str, str]
    rungs: tuple[Rung, ...] = ()

    name: ClassVar[str] = "pack-text"
    version: ClassVar[int] = 1
    accepts: ClassVar[str] = "checkpoint"
    returns: ClassVar[str] = "bundle"
    tools: ClassVar[tuple[str, ...]] = ("numpy", "tokenizers", "executorch", "onnxruntime", "ai-edge-litert")

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write the bundle's directory into `out`."""
        from edgekit.build.text.checkpoint import TOKENIZER as FOLDER
        from edgekit.build.text.tokenizer import open_tokenizer

        facts = read_text_facts(source.path)
        tokenizer = open_tokenizer(source.path / FOLDER)
        ids, _ = tokenizer.encode(SAMPLES, max_tokens=1 << 30)
        examples = [{"text": text, "ids": list(row)} for text, row in zip(SAMPLES, ids, strict=True)]
        contents: dict[str, bytes | Path] = {
            TOKENIZER: (source.path / FOLDER / "tokenizer.json").read_bytes(),
            VOCABULARY: (source.path / FOLDER / "vocab.txt").read_bytes(),
            EXAMPLES: (json.dumps(examples, ensure_ascii=False) + "\n").encode(),
        }
        lowered = [(read_payload(artifact.path), artifact.path) for artifact in self.payloads]
        goldens = _golden_ids(ids, facts, sorted({entry.tokens for entry in lowered[0][0].entries}))
        for tokens, rows in goldens.items():
            contents[_inputs(tokens)] = rows.tobytes()
        payloads = []
        for i, (payload, folder) in enumerate(lowered):
            progress(0.1 + 0.8 * i / len(lowered), f"running golden vectors, {i + 1} of {len(lowered)}")
            payloads.append(_finish(payload, folder, facts, goldens, contents))
        if facts.names:
            contents["labels.txt"] = "".join(f"{name}\n" for name in facts.names).encode()
        manifest = self._manifest(facts, tuple(payloads), goldens)
        with tempfile.TemporaryDirectory(dir=out.parent) as work:
            bundle = Path(work) / "bundle"
            write_bundle(manifest, contents, bundle)
            for item in sorted(bundle.iterdir()):
                item.rename(out / item.name)

    def _manifest(self, facts: TextFacts, payloads: tuple[Payload, ...], goldens: Mapping[int, np.ndarray]) -> Manifest:
        rungs = self.rungs or (Rung(RUNG),)
        return Manifest(
            format=FORMAT,
            model=ModelInfo(facts.name, facts.task, facts.outputs, facts.weights, facts.weights_sha256, facts.license),
            target=self.target,
            preprocess=None,
            rungs=rungs,
            payloads=payloads,
            golden_inputs=tuple(GoldenInputs(rungs[0].name, _inputs(tokens), rows.shape) for tokens, rows in goldens.items()),
            labels="labels.txt" if facts.names else None,
            provenance=self.provenance,
            files=(),
            text=Text(TOKENIZER, VOCABULARY, **_ids(facts), max_tokens=max(goldens), examples=EXAMPLES),
        )


def _ids(facts: TextFacts) -> dict[str, int]:
    return {name: getattr(facts.wordpiece, name) for name in (f.name for f in dataclasses.fields(facts.wordpiece))}


def _inputs(tokens: int) -> str:
    return f"goldens/ids-{tokens}.bin"


def _golden_ids(ids: Sequence[Sequence[int]], facts: TextFacts, buckets: Sequence[int]) -> dict[int, np.ndarray]:
    """For each bucket the longest samples that fit, one of them cut to fill it: (n, tokens) int32, -1 for padding."""
    found = {}
    for tokens in buckets:
        fitting = sorted((row for row in ids if len(row) <= tokens), key=len)[1 - GOLDENS_EACH :]
        longest = max(ids, key=len)
        if len(longest) > tokens:
            fitting.append([*longest[: tokens - 1], facts.wordpiece.sep])
        rows = np.full((len(fitting), tokens), -1, "<i4")
        for row, one in zip(rows, fitting, strict=True):
            row[: len(one)] = one
        found[tokens] = rows
    return found


def _finish(
    payload: Payload, folder: Path, facts: TextFacts, goldens: Mapping[int, np.ndarray], contents: dict[str, bytes | Path]
) -> Payload:
    """Add golden outputs to a payload, and its files to `contents`."""
    files = {entry.file: folder / Path(entry.file).name for entry in payload.entries}
    names = {entry.file: _place(payload, entry, files[entry.file], alone=len(files) == 1) for entry in payload.entries}
    contents |= {names[file]: path for file, path in files.items()}
    plain = len({entry.rung for entry in payload.entries}) == 1
    share = TOLERANCE.get(payload.precision, INT8_TOLERANCE)
    told = []
    with PayloadRunner(payload, files.__getitem__, pad=facts.wordpiece.pad) as runner:
        for entry in payload.entries:
            tokens = entry.tokens
            outputs = np.stack([runner.run(entry, row[row >= 0]) for row in goldens[tokens]]).astype("<f4")
            golden = f"goldens/{payload.id}{'' if plain else f'-{entry.rung}'}-{tokens}.bin"
            contents[golden] = outputs.tobytes()
            tolerance = round(share * float(np.abs(outputs).max()), 6)
            told.append(GoldenOutputs(entry.rung, golden, "float32", outputs.shape, tolerance, tokens))
    entries = tuple(dataclasses.replace(entry, file=names[entry.file]) for entry in payload.entries)
    return dataclasses.replace(payload, entries=entries, goldens=tuple(told))


def _place(payload: Payload, entry: Entry, file: Path, *, alone: bool) -> str:
    """Where the file of an entry lies in the bundle."""
    return f"payloads/{payload.id}{'' if alone else f'-{entry.rung}'}{file.suffix}"

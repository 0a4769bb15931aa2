"""`answer`: what a float program, or the payloads of a bundle, say to photos: the raw material of every verdict."""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from edgekit.bench.lanes import answers, open_lanes
from edgekit.build.artifact import Artifact
from edgekit.build.data import Dataset
from edgekit.build.facts import Facts, read_facts
from edgekit.build.pipeline import Progress
from edgekit.build.splits import Splits
from edgekit.build.stages.export import PROGRAM

__all__ = ["FLOAT", "AnswerBundle", "AnswerFloat", "Answers", "read_answers", "write_answers"]

PARTS = ("tune", "report")
FLOAT = "float"


@dataclass(frozen=True, slots=True)
class Answers:
    """Logits of the same photos.

    Attributes:
        labels: (n,) right classes; None without labels.
        logits: (n, classes) of each payload in the dtype that it gives, or float32 of `float`.
    """

    labels: np.ndarray | None
    logits: Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class AnswerFloat:
    """The float program's answers.

    Attributes:
        splits: the data.
        part: `tune` or `report`.
    """

    splits: Splits
    part: str

    name: ClassVar[str] = "answer"
    version: ClassVar[int] = 1
    accepts: ClassVar[str] = "program"
    returns: ClassVar[str] = "report"
    tools: ClassVar[tuple[str, ...]] = ("torch", "numpy", "pillow")

    @property
    def title(self) -> str:
        """Whose answers to which photos."""
        return f"float on {self.part}"

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write the logits and the labels."""
        from edgekit.build import programs
        from edgekit.build.tensors import batches

        data, facts = _part(self.splits, self.part), read_facts(source.path)
        module = programs.load(source.path / PROGRAM).module(check_guards=False)
        rows = []
        import torch

        with torch.inference_mode(), programs.one_thread():
            for done, image in enumerate(batches(data, facts)):
                rows.append(module(image).numpy())
                progress(done / len(data), f"photo {done} of {len(data)}")
        write_answers(out, {FLOAT: np.concatenate(rows)}, data.labels)


@dataclass(frozen=True, slots=True)
class AnswerBundle:
    """The answers of every payload of a bundle, run by its engine.

    Attributes:
        splits: the data.
        part: `tune` or `report`.
        facts: how photos are prepared.
    """

    splits: Splits
    part: str
    facts: Facts

    name: ClassVar[str] = "answer"
    version: ClassVar[int] = 1
    accepts: ClassVar[str] = "bundle"
    returns: ClassVar[str] = "report"
    tools: ClassVar[tuple[str, ...]] = ("executorch", "onnxruntime", "ai-edge-litert", "numpy", "pillow")

    @property
    def title(self) -> str:
        """Whose answers to which photos."""
        return f"payloads on {self.part}"

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write the logits and the labels."""
        data = _part(self.splits, self.part)
        with open_lanes(source.path, threads=1) as opened:
            logits = answers(opened.lanes, _told(data, self.facts, progress))
            names = [lane.payload.id for lane in opened.lanes]
        write_answers(out, dict(zip(names, logits, strict=True)), data.labels)


def read_answers(folder: Path) -> Answers:
    """What either stage wrote."""
    names = json.loads((folder / "answers.json").read_text(encoding="utf-8"))
    labels = np.load(folder / "labels.npy") if (folder / "labels.npy").is_file() else None
    return Answers(labels, {name: np.load(folder / f"{name}.npy") for name in names})


def _part(splits: Splits, part: str) -> Dataset:
    data: Dataset = getattr(splits.open(), part)
    return data


def _told(data: Dataset, facts: Facts, progress: Progress) -> Iterator[np.ndarray]:
    pictures = data.iter_images(resolution_px=facts.resolution_px, resize_px=facts.resize_px, filter=facts.filter)
    for done, picture in enumerate(pictures):
        progress(done / len(data), f"photo {done} of {len(data)}")
        yield picture


def write_answers(out: Path, logits: Mapping[str, np.ndarray], labels: Sequence[int] | None) -> None:
    """Write what `read_answers` reads."""
    (out / "answers.json").write_text(json.dumps(list(logits)) + "\n", encoding="utf-8")
    for name, values in logits.items():
        _save(out / f"{name}.npy", values)
    if labels is not None:
        _save(out / "labels.npy", np.asarray(labels, np.int64))


def _save(path: Path, values: np.ndarray) -> None:
    buffer = io.BytesIO()
    np.save(buffer, values)
    path.write_bytes(buffer.getbuffer())

"""`answer` of a ladder: what every rung of a bundle says to photos, and what it takes here."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from edgekit.bench.rungs import Views, rung_answers, rung_times
from edgekit.build.artifact import Artifact
from edgekit.build.data import Dataset
from edgekit.build.pipeline import Progress
from edgekit.build.splits import Splits
from edgekit.build.stages.answer import Answers, read_answers, write_answers
from edgekit.runtime.loaded import Loaded, load_payload
from edgekit.spec.bundle import BundleReader, open_bundle

__all__ = ["AnswerRungs", "RungTimes", "TimeRungs", "read_rung_answers", "read_rung_times"]

JOINT = "@"
TIMES = "times.json"
TIMED_PHOTOS, ROUNDS = 16, 12

RungTimes = Mapping[str, Mapping[str, float]]
"""CPU ms by payload and rung, the rungs before not counted."""


@dataclass(frozen=True, slots=True)
class AnswerRungs:
    """The answers of every rung of every payload.

    Attributes:
        splits: the data.
        part: `tune` or `report`.
    """

    splits: Splits
    part: str

    name: ClassVar[str] = "answer-rungs"
    version: ClassVar[int] = 1
    accepts: ClassVar[str] = "bundle"
    returns: ClassVar[str] = "report"
    tools: ClassVar[tuple[str, ...]] = ("executorch", "onnxruntime", "ai-edge-litert", "numpy", "pillow")

    @property
    def title(self) -> str:
        """Whose answers to which photos."""
        return f"rungs on {self.part}"

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write the logits of each rung and the labels."""
        data: Dataset = getattr(self.splits.open(), self.part)
        with _opened(source.path) as (reader, loaded):
            found = rung_answers(loaded, _told(_views(data, reader), len(data), progress))
            rows = {
                f"{each.payload.id}{JOINT}{rung}": logits
                for each, answers in zip(loaded, found, strict=True)
                for rung, logits in answers.items()
            }
        write_answers(out, rows, data.labels)


@dataclass(frozen=True, slots=True)
class TimeRungs:
    """What each rung takes on this machine, one thread.

    Attributes:
        splits: the data; photos to tune are run.
        machine: what times depend on: processor and engine versions.
    """

    splits: Splits
    machine: Mapping[str, str]

    name: ClassVar[str] = "time-rungs"
    version: ClassVar[int] = 1
    accepts: ClassVar[str] = "bundle"
    returns: ClassVar[str] = "report"
    tools: ClassVar[tuple[str, ...]] = ("executorch", "onnxruntime", "ai-edge-litert")

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write `times.json`: median CPU ms of each rung, by payload."""
        progress(0.1, f"timing each rung on {TIMED_PHOTOS} photos")
        data = self.splits.open().tune
        with _opened(source.path) as (reader, loaded):
            photos = list(_views(data.take(min(TIMED_PHOTOS, len(data)), 0), reader))
            found = rung_times(loaded, photos, rounds=ROUNDS)
            times = {
                each.payload.id: {rung: float(np.median(rows)) for rung, rows in taken.items()}
                for each, taken in zip(loaded, found, strict=True)
            }
        (out / TIMES).write_text(json.dumps(times, indent=1) + "\n", encoding="utf-8")


def read_rung_answers(folder: Path) -> tuple[np.ndarray | None, dict[str, dict[str, np.ndarray]]]:
    """(n,) labels or None, and (n, classes) logits by payload and rung."""
    answers: Answers = read_answers(folder)
    found: dict[str, dict[str, np.ndarray]] = {}
    for name, logits in answers.logits.items():
        payload, _, rung = name.partition(JOINT)
        found.setdefault(payload, {})[rung] = logits
    return answers.labels, found


def read_rung_times(folder: Path) -> RungTimes:
    """What `TimeRungs` wrote."""
    times: RungTimes = json.loads((folder / TIMES).read_text(encoding="utf-8"))
    return times


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[BundleReader, list[Loaded]]]:
    with contextlib.ExitStack() as stack:
        reader = stack.enter_context(open_bundle(path))
        loaded = []
        for payload in reader.manifest.payloads:
            loaded.append(load_payload(reader, payload, threads=1))
            stack.callback(loaded[-1].close)
        yield reader, loaded


def _views(data: Dataset, reader: BundleReader) -> Iterator[Views]:
    """Each photo as all rungs see it that start from one."""
    manifest = reader.manifest
    rungs = [rung for rung in manifest.rungs if not rung.continues]
    if manifest.preprocess is None:
        raise ValueError("a bundle of photos has a preprocess")
    how = manifest.preprocess.filter
    sides = [data.iter_images(resolution_px=r.resolution_px, resize_px=r.resize_px, filter=how) for r in rungs]
    for views in zip(*sides, strict=True):
        yield {rung.name: view for rung, view in zip(rungs, views, strict=True)}


def _told(views: Iterator[Views], count: int, progress: Progress) -> Iterator[Views]:
    for done, each in enumerate(views):
        progress(done / count, f"photo {done} of {count}")
        yield each

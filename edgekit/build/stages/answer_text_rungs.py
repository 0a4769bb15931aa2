"""`answer-text` of a ladder: what every rung of a payload says to texts, and what it takes here."""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from edgekit.build.artifact import Artifact
from edgekit.build.pipeline import Progress
from edgekit.build.stages.answer import read_answers, write_answers
from edgekit.build.stages.answer_text import texts_of
from edgekit.build.stages.lower import read_payload
from edgekit.build.text.running import PayloadRunner
from edgekit.build.text.splits import TextSplits

__all__ = ["AnswerTextRungs", "TimeTextRungs", "read_text_rungs", "read_text_times"]

TIMES = "times.json"
TIMED_TEXTS, ROUNDS, WARM_UP = 48, 12, 2


@dataclass(frozen=True, slots=True)
class AnswerTextRungs:
    """The answers of every rung of a payload, each text in the smallest bucket that holds it.

    Attributes:
        checkpoint: whose tokenizer and classes are taken.
        splits: the data.
        part: `fit`, `tune` or `report`.
        most: texts at most, spread over the classes; 0 takes all.
    """

    checkpoint: Artifact
    splits: TextSplits
    part: str
    most: int = 0

    name: ClassVar[str] = "answer-text-rungs"
    version: ClassVar[int] = 1
    accepts: ClassVar[str] = "payload"
    returns: ClassVar[str] = "report"
    tools: ClassVar[tuple[str, ...]] = ("executorch", "onnxruntime", "ai-edge-litert", "numpy", "tokenizers")

    @property
    def title(self) -> str:
        """Whose answers to which texts."""
        return f"rungs on {self.part}"

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write the logits of each rung and the labels."""
        ids, labels, pad = _encoded(self.checkpoint, self.splits, self.part, self.most)
        rows: dict[str, list[np.ndarray]] = {}
        with _runner(source, pad) as runner:
            for done, text in enumerate(ids):
                for rung, logits in runner.rungs(text).items():
                    rows.setdefault(rung, []).append(logits)
                progress(done / len(ids), f"text {done} of {len(ids)}")
        write_answers(out, {rung: np.stack(each) for rung, each in rows.items()}, labels)


@dataclass(frozen=True, slots=True)
class TimeTextRungs:
    """What each rung of several payloads takes on this machine, one thread, at the length of the user's own texts.

    Attributes:
        checkpoint: whose tokenizer is taken.
        payloads: that are timed in turns, so that whatever slows the machine slows all.
        splits: the data; texts to tune are run.
        machine: what times depend on: processor and engine versions.
    """

    checkpoint: Artifact
    payloads: tuple[Artifact, ...]
    splits: TextSplits
    machine: Mapping[str, str]

    name: ClassVar[str] = "time-text-rungs"
    version: ClassVar[int] = 1
    accepts: ClassVar[str] = "payload"
    returns: ClassVar[str] = "report"
    tools: ClassVar[tuple[str, ...]] = ("executorch", "onnxruntime", "ai-edge-litert", "tokenizers")

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write `times.json`: for each payload by rung the mean over texts of the median CPU ms."""
        del source  # the first of the payloads
        ids, _, pad = _encoded(self.checkpoint, self.splits, "tune", TIMED_TEXTS)
        taken: list[list[list[dict[str, float]]]] = [[[] for _ in ids] for _ in self.payloads]
        with contextlib.ExitStack() as stack:
            runners = [stack.enter_context(_runner(each, pad)) for each in self.payloads]
            for turn in range(WARM_UP + ROUNDS):
                progress(turn / (WARM_UP + ROUNDS), f"timing each rung on {len(ids)} texts")
                for place, text in enumerate(ids):
                    for runner, into in zip(runners, taken, strict=True):
                        found = runner.times_ms(text)
                        if turn >= WARM_UP:
                            into[place].append(found)
        times = [{rung: _mean_of_medians(each, rung) for rung in each[0][0]} for each in taken]
        (out / TIMES).write_text(json.dumps(times, indent=1) + "\n", encoding="utf-8")


def read_text_rungs(folder: Path) -> tuple[np.ndarray | None, Mapping[str, np.ndarray]]:
    """(n,) labels or None, and (n, classes) logits by rung."""
    found = read_answers(folder)
    return found.labels, found.logits


def read_text_times(folder: Path) -> tuple[Mapping[str, float], ...]:
    """CPU ms by rung, the rungs before not counted, of each payload in the order they were given."""
    return tuple(json.loads((folder / TIMES).read_text(encoding="utf-8")))


def _mean_of_medians(rounds_of_texts: list[list[dict[str, float]]], rung: str) -> float:
    return float(np.mean([np.median([each[rung] for each in rounds]) for rounds in rounds_of_texts]))


def _runner(payload: Artifact, pad: int) -> PayloadRunner:
    return PayloadRunner(read_payload(payload.path), lambda file: payload.path / Path(file).name, pad=pad)


def _encoded(
    checkpoint: Artifact, splits: TextSplits, part: str, most: int
) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...] | None, int]:
    """-> ids of each text, labels, the id of padding."""
    from edgekit.build.text.checkpoint import TOKENIZER
    from edgekit.build.text.facts import read_text_facts
    from edgekit.build.text.tokenizer import open_tokenizer

    facts = read_text_facts(checkpoint.path)
    texts = texts_of(splits, part, names=facts.names)
    texts = texts.take(most) if most else texts
    tokenizer = open_tokenizer(checkpoint.path / TOKENIZER)
    ids, _ = tokenizer.encode(texts.texts, max_tokens=facts.max_tokens)
    return tuple(map(tuple, ids)), texts.labels, tokenizer.facts.pad

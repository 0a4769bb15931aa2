"""A bundle that reads text: `edgekit.open(path)`, then `model.run("my card has not arrived")`."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgekit.runtime.decode import best_labels
from edgekit.runtime.engines import Tensor
from edgekit.runtime.ladder import Ask, Input, Outcome, check_ask, climb_all
from edgekit.runtime.loaded_text import LoadedText
from edgekit.runtime.opened import Opened, check_top
from edgekit.runtime.paces import Paces
from edgekit.runtime.results import Latency, Refusal, Result
from edgekit.runtime.tokens import check_examples, open_encode, read_text, shortened
from edgekit.runtime.verify import GoldenResult
from edgekit.spec.bundle import BundleReader
from edgekit.spec.errors import InputError

__all__ = ["TextModel"]

EMBEDDING = "sentence-embedding"


@dataclass(frozen=True, slots=True)
class _Read:
    """A text on its way: tokens before it was cut, the bucket, what reading took, and what climbs."""

    tokens: int
    bucket: int
    pre_ms: float
    given: Input


class TextModel(Opened[LoadedText]):
    """An open bundle that reads text; see `Opened`. Safe to share between threads: runs wait for each other."""

    def __init__(self, reader: BundleReader, loaded: LoadedText, *, refused: tuple[Refusal, ...], threads: int) -> None:
        """Wrap what `open_model` has loaded; it closes both."""
        super().__init__(reader, loaded, refused=refused, threads=threads)
        if reader.manifest.text is None:
            raise InputError(
                "the bundle's network sees images", where=str(reader.path), fix="open it with Model", code="bundle-task"
            )
        self._text = reader.manifest.text
        self._encode = open_encode(reader, self._text)
        self._paces = {tokens: Paces() for tokens in loaded.buckets}

    def run(self, text: str | bytes, *, top: int = 5, floor: str = "balanced", ceiling_ms: float | None = None) -> Result:
        """Classify one text; one that is longer than the largest bucket is cut, which the result says.

        Args:
            text: of any length, also empty; bytes must be UTF-8.
            top: how many labels to return.
            floor: how sure an answer must be before it is taken: `accurate`, `balanced` or `fast`.
            ceiling_ms: no rung is begun that would probably end later than so long after the call; the first one always runs.
                What a rung takes is learned from the runs before: call `warm_up` first.

        Raises:
            InputError: no text, the bundle gives embeddings, an argument cannot be, or the model is closed.
        """
        return self.run_batch((text,), top=top, floor=floor, ceiling_ms=ceiling_ms)[0]

    def run_batch(
        self, texts: Sequence[str | bytes], *, top: int = 5, floor: str = "balanced", ceiling_ms: float | None = None
    ) -> tuple[Result, ...]:
        """Classify texts rung by rung; those whose answer is sure enough leave before the next rung runs.

        Args:
            texts: each as for `run`.
            top: as for `run`.
            floor: as for `run`.
            ceiling_ms: as for `run`; each text has so much time of its own.

        Raises:
            InputError: as `run` does.
        """
        check_top(top)
        check_ask(floor, ceiling_ms)
        self._must(self.manifest.model.task != EMBEDDING, "classes", "model.embed(text)")
        read = [self._read(text) for text in texts]
        outcomes = climb_all([each.given for each in read], Ask(floor, ceiling_ms))
        return tuple(self._result(outcome, each, top) for outcome, each in zip(outcomes, read, strict=True))

    def _read(self, text: str | bytes) -> _Read:
        start = time.perf_counter()
        ids = self._encode(read_text(text))
        bucket, tensors = self._tensors(ids)
        given = self._loaded.input_of(tensors)
        pre_ms = (time.perf_counter() - start) * 1e3
        return _Read(len(ids), bucket, pre_ms, replace(given, used_ms=pre_ms, expected_ms=self._paces[bucket].expected_ms))

    def _result(self, outcome: Outcome, read: _Read, top: int) -> Result:
        self._paces[read.bucket].learn(outcome.rungs)
        begun = time.perf_counter()
        rung = outcome.rungs[-1].name
        spec = self._loaded.entry(read.bucket, rung).outputs[0]
        labels = best_labels(outcome.outputs[0].reshape(-1), spec, names=self.labels, top=top)
        post_ms = (time.perf_counter() - begun) * 1e3
        return Result(
            labels,
            rung,
            self.engine,
            self.delegate,
            self.precision,
            Latency(read.pre_ms, sum(run.latency_ms for run in outcome.rungs), post_ms),
            outcome.margin,
            fallback=self.fallback,
            rungs=outcome.rungs,
            stopped_by=outcome.stopped_by,
            tokens=read.tokens,
            bucket_tokens=read.bucket,
            truncated=read.tokens > self._longest,
        )

    def logits(self, texts: str | bytes | Sequence[str | bytes]) -> Tensor:
        """One text or n of them -> (n, classes) as the engine gave them; of a sentence embedder, (n, width).

        Raises:
            InputError: no text, or the model is closed.
        """
        listed = [texts] if isinstance(texts, str | bytes | bytearray) else list(texts)
        if not listed:
            raise InputError("there are no texts", where="texts", fix="give at least one", code="text-type")
        rows = [self._loaded.run(*self._tensors(self._encode(read_text(text)))[1])[0].reshape(-1) for text in listed]
        return np.stack(rows)

    def embed(self, text: str | bytes) -> NDArray[np.float32]:
        """One text -> (width,) float32 sentence embedding.

        Raises:
            InputError: no text, the bundle classifies, or the model is closed.
        """
        self._must(self.manifest.model.task == EMBEDDING, "embeddings", "model.run(text)")
        embedding: NDArray[np.float32] = self.logits(text)[0].astype(np.float32)
        return embedding

    @property
    def _longest(self) -> int:
        return min(self._text.max_tokens, self._loaded.buckets[-1])

    def _tensors(self, ids: tuple[int, ...]) -> tuple[int, tuple[Tensor, Tensor]]:
        ids = shortened(ids, max_tokens=self._longest)
        bucket = self._loaded.bucket_of(len(ids))
        return bucket, self._loaded.tensors(ids, bucket)

    def _must(self, ok: bool, what: str, fix: str) -> None:
        if not ok:
            raise InputError(
                f"a bundle for {self.manifest.model.task} gives no {what}",
                where=str(self._reader.path),
                fix=f"call {fix}",
                code="bundle-task",
            )

    def warm_up(self, n: int = 3) -> None:
        """Run every bucket `n` times on padding alone, so that the first real answer is not the slowest; loads all of them."""
        for tokens in self._loaded.buckets:
            given = self._loaded.input_of(self._loaded.tensors((self._text.cls, self._text.sep)[:tokens], tokens))
            for _ in range(max(n, 1)):
                self._paces[tokens].learn(climb_all((given.through(),))[0].rungs)

    def verify(self) -> tuple[GoldenResult, ...]:
        """Run the bundle's golden texts: one result per bucket, then one for the tokenizer's examples (`check_examples`)."""
        return (*self._loaded.check_goldens(self._reader), check_examples(self._reader, self._text))

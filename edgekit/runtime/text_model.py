"""A bundle that reads text: `edgekit.open(path)`, then `model.run("my card has not arrived")`."""

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgekit.runtime.decode import best_labels
from edgekit.runtime.engines import Tensor
from edgekit.runtime.ladder import margin_of
from edgekit.runtime.loaded_text import LoadedText
from edgekit.runtime.opened import Opened
from edgekit.runtime.results import Latency, Refusal, Result
from edgekit.runtime.tokens import check_examples, open_encode, read_text, shortened
from edgekit.runtime.verify import GoldenResult
from edgekit.spec.bundle import BundleReader
from edgekit.spec.errors import InputError

__all__ = ["TextModel"]

EMBEDDING = "sentence-embedding"


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

    def run(self, text: str | bytes, *, top: int = 5) -> Result:
        """Classify one text; one that is longer than the largest bucket is cut, which the result says.

        Args:
            text: of any length, also empty; bytes must be UTF-8.
            top: how many labels to return.

        Raises:
            InputError: no text, the bundle gives embeddings, or the model is closed.
        """
        if top < 1:
            raise InputError(f"top is {top}", where="top", fix="ask for at least one label", code="argument")
        self._must(self.manifest.model.task != EMBEDDING, "classes", "model.embed(text)")
        start = time.perf_counter()
        ids = self._encode(read_text(text))
        bucket, inputs = self._tensors(ids)
        ready = time.perf_counter()
        logits = self._loaded.run(*inputs)[0].reshape(-1)
        ran = time.perf_counter()
        labels = best_labels(logits, self._loaded.entry(bucket).outputs[0], names=self.labels, top=top)
        done = time.perf_counter()
        return Result(
            labels,
            self.manifest.rungs[0].name,
            self.engine,
            self.delegate,
            self.precision,
            Latency((ready - start) * 1e3, (ran - ready) * 1e3, (done - ran) * 1e3),
            margin_of(logits),
            fallback=self.fallback,
            tokens=len(ids),
            bucket_tokens=bucket,
            truncated=len(ids) > self._longest,
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
            for _ in range(max(n, 1)):
                self._loaded.run(*self._loaded.tensors((self._text.cls, self._text.sep)[:tokens], tokens))

    def verify(self) -> tuple[GoldenResult, ...]:
        """Run the bundle's golden texts: one result per bucket, then one for the tokenizer's examples (`check_examples`)."""
        return (*self._loaded.check_goldens(self._reader), check_examples(self._reader, self._text))

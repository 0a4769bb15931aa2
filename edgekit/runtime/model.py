"""A bundle that answers: `edgekit.open(path)`, then `model.run(image)`."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgekit.runtime.decode import best_labels
from edgekit.runtime.engines import Tensor
from edgekit.runtime.images import ImageLike, decode
from edgekit.runtime.ladder import Ask, Input, Outcome, check_ask, climb_all
from edgekit.runtime.loaded import Loaded
from edgekit.runtime.loaded_text import LoadedText
from edgekit.runtime.opened import Opened, check_top
from edgekit.runtime.paces import Paces
from edgekit.runtime.pixels import crop_pixels
from edgekit.runtime.results import Latency, Refusal, Result
from edgekit.runtime.select import choose
from edgekit.runtime.text_model import TextModel
from edgekit.runtime.verdicts import usable_cpus
from edgekit.runtime.verify import GoldenResult, first_rung
from edgekit.spec.bundle import BundleReader, open_bundle
from edgekit.spec.errors import InputError
from edgekit.spec.manifest import Rung

__all__ = ["Model", "open_model"]

DEFAULT_THREADS_MAX = 4
"""More threads than big cores only wait for each other."""


class Model(Opened[Loaded]):
    """An open bundle that sees images; see `Opened`. Safe to share between threads: runs of one rung wait for each other."""

    def __init__(self, reader: BundleReader, loaded: Loaded, *, refused: tuple[Refusal, ...], threads: int) -> None:
        """Wrap what `open_model` has loaded; it closes both."""
        super().__init__(reader, loaded, refused=refused, threads=threads)
        self._filter = reader.manifest.preprocess.filter if reader.manifest.preprocess else ""
        self._paces = Paces()
        self._rungs = {rung.name: rung for rung in reader.manifest.rungs}

    def run(self, image: ImageLike, *, top: int = 5, floor: str = "balanced", ceiling_ms: float | None = None) -> Result:
        """Classify one image.

        Args:
            image: a path, a PIL image, or a uint8 array (height, width, 3) or (height, width).
            top: how many labels to return.
            floor: how sure an answer must be before it is taken: `accurate`, `balanced` or `fast`.
            ceiling_ms: no rung is begun that would probably end later than so long after the call; the first one always runs.
                What a rung takes is learned from the runs before: call `warm_up` first.

        Raises:
            InputError: the image cannot be read, an argument cannot be, or the model is closed.
        """
        return self.run_batch((image,), top=top, floor=floor, ceiling_ms=ceiling_ms)[0]

    def run_batch(
        self, images: Sequence[ImageLike], *, top: int = 5, floor: str = "balanced", ceiling_ms: float | None = None
    ) -> tuple[Result, ...]:
        """Classify images rung by rung; those whose answer is sure enough leave before the next rung runs.

        Args:
            images: as for `run`.
            top: as for `run`.
            floor: as for `run`.
            ceiling_ms: as for `run`; each image has so much time of its own.

        Raises:
            InputError: as `run` does.
        """
        check_top(top)
        check_ask(floor, ceiling_ms)
        seen = [_Seen(image, self._loaded, self._filter) for image in images]
        inputs = [
            Input(self._loaded.steps, each.prepare, begin=each.open, end=each.close, expected_ms=self._paces.expected_ms)
            for each in seen
        ]
        outcomes = climb_all(inputs, Ask(floor, ceiling_ms))
        return tuple(self._result(outcome, each, top) for outcome, each in zip(outcomes, seen, strict=True))

    def _result(self, outcome: Outcome, seen: "_Seen", top: int) -> Result:
        self._paces.learn(outcome.rungs)
        begun = time.perf_counter()
        rung = outcome.rungs[-1].name
        labels = best_labels(outcome.outputs[0].reshape(-1), self._loaded.entry(rung).outputs[0], names=self.labels, top=top)
        post_ms = (time.perf_counter() - begun) * 1e3
        inference_ms = sum(run.latency_ms for run in outcome.rungs) - seen.tensors_ms
        return Result(
            labels,
            rung,
            self.engine,
            self.delegate,
            self.precision,
            Latency(seen.decode_ms + seen.tensors_ms, inference_ms, post_ms),
            outcome.margin,
            fallback=self.fallback,
            rungs=outcome.rungs,
            stopped_by=outcome.stopped_by,
        )

    def logits(self, images: ImageLike, *, rung: str | None = None) -> Tensor:
        """Image, or (n, resolution_px, resolution_px, 3) uint8 cropped pixels -> (n, classes) as the engine gave them.

        Args:
            images: an image like that of `run`, or a batch of pixels after resize and crop.
            rung: whose logits; the last rung's by default. No rung on the way stops the climb.

        Raises:
            InputError: no such rung, a batch of another size, or the model is closed.
        """
        target = rung or self._loaded.steps[-1].rung.name
        if target not in {step.rung.name for step in self._loaded.steps}:
            have = ", ".join(step.rung.name for step in self._loaded.steps)
            raise InputError(f"no rung {target!r}", where="rung", fix=f"choose one of: {have}", code="unknown-rung")
        start = self._rungs[first_rung(self.manifest, target)]
        walk = self._loaded.walk_to(target)
        rows = [walk(self._loaded.tensor(pixels, start))[0].reshape(-1) for pixels in self._batch(images, start)]
        return np.stack(rows)

    def _batch(self, images: ImageLike, rung: Rung) -> NDArray[np.uint8]:
        if not isinstance(images, np.ndarray) or images.ndim != 4:
            return crop_pixels(images, rung, filter_name=self._filter)[None]
        side = rung.resolution_px
        if images.dtype != np.uint8 or images.shape[1:] != (side, side, 3) or not len(images):
            raise InputError(
                f"a batch is {images.dtype}{list(images.shape)}",
                where="images",
                fix=f"give uint8 [n, {side}, {side}, 3] with n >= 1, or one image",
                code="image-shape",
            )
        return images

    def warm_up(self, n: int = 3) -> None:
        """Run every rung `n` times on black pixels, so that the first real answer is not the slowest and a ceiling knows them."""
        starts = [step.rung for step in self._loaded.steps if not step.rung.continues]
        tensors = {r.name: self._loaded.tensor(np.zeros((r.resolution_px, r.resolution_px, 3), np.uint8), r) for r in starts}
        given = Input(self._loaded.steps, lambda rung: (tensors[rung.name],)).through()
        for _ in range(max(n, 1)):
            self._paces.learn(climb_all((given,))[0].rungs)

    def verify(self) -> tuple[GoldenResult, ...]:
        """Run the bundle's golden images through the loaded payload: one result per rung."""
        return self._loaded.check_goldens(self._reader)


class _Seen:
    """An image on its way: decoded when its first rung is due, forgotten when it is answered."""

    def __init__(self, image: ImageLike, loaded: Loaded, filter_name: str) -> None:
        self._image, self._loaded, self._filter = image, loaded, filter_name
        self._pixels: NDArray[np.uint8] | None = None
        self.decode_ms = 0.0
        self.tensors_ms = 0.0

    def open(self) -> None:
        begun = time.perf_counter()
        self._pixels = decode(self._image)
        self.decode_ms = (time.perf_counter() - begun) * 1e3

    def prepare(self, rung: Rung) -> tuple[Tensor]:
        assert self._pixels is not None
        begun = time.perf_counter()
        tensor = self._loaded.tensor(crop_pixels(self._pixels, rung, filter_name=self._filter), rung)
        self.tensors_ms += (time.perf_counter() - begun) * 1e3
        return (tensor,)

    def close(self) -> None:
        self._pixels = None


def open_model(
    path: str | os.PathLike[str], *, engine: str = "auto", precision: str | None = None, threads: int | None = None
) -> Model | TextModel:
    """Open a bundle and load the payload that runs best here.

    Args:
        path: a bundle's directory or `.ekb` file.
        engine: `executorch`, `litert` or `onnx`; `auto` races those that pass the bundle's goldens, and remembers the winner.
        precision: take only payloads of this precision: `int8`, `fp16` or `fp32`.
        threads: threads that the engine may use; by default the cores of this process, at most four.

    Returns:
        A `TextModel` where the network reads text, else a `Model`.

    Raises:
        InputError: the bundle is refused, or holds nothing that fits the request.
        SetupError: no engine for it is installed.
    """
    threads = min(usable_cpus(), DEFAULT_THREADS_MAX) if threads is None else threads
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise InputError(f"threads is {threads!r}", where="threads", fix="give a number from 1", code="argument")
    reader = open_bundle(Path(path))
    try:
        choice = choose(reader, engine=engine, precision=precision, threads=threads)
    except BaseException:
        reader.close()
        raise
    try:
        if isinstance(choice.loaded, LoadedText):
            return TextModel(reader, choice.loaded, refused=choice.refused, threads=threads)
        return Model(reader, choice.loaded, refused=choice.refused, threads=threads)
    except BaseException:
        choice.loaded.close()
        reader.close()
        raise

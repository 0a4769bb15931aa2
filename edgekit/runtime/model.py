"""A bundle that answers: `edgekit.open(path)`, then `model.run(image)`."""

import os
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgekit.runtime.decode import best_labels
from edgekit.runtime.engines import Tensor
from edgekit.runtime.images import ImageLike, decode
from edgekit.runtime.ladder import climb
from edgekit.runtime.loaded import Loaded
from edgekit.runtime.loaded_text import LoadedText
from edgekit.runtime.opened import Opened
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
        self._rungs = {rung.name: rung for rung in reader.manifest.rungs}

    def run(self, image: ImageLike, *, top: int = 5) -> Result:
        """Classify one image.

        Args:
            image: a path, a PIL image, or a uint8 array (height, width, 3) or (height, width).
            top: how many labels to return.

        Raises:
            InputError: the image cannot be read, or the model is closed.
        """
        if top < 1:
            raise InputError(f"top is {top}", where="top", fix="ask for at least one label", code="argument")
        filter_name = self._filter
        pre = 0.0
        start = time.perf_counter()
        pixels = decode(image)

        def prepare(rung: Rung) -> Tensor:
            nonlocal pre
            begin = time.perf_counter()
            tensor = self._loaded.tensor(crop_pixels(pixels, rung, filter_name=filter_name), rung)
            pre += time.perf_counter() - begin
            return tensor

        decoded = time.perf_counter()
        outcome = climb(self._loaded.steps, prepare)
        climbed = time.perf_counter()
        rung = self._loaded.steps[outcome.index].rung
        spec = self._loaded.entry(rung.name).outputs[0]
        labels = best_labels(outcome.outputs[0].reshape(-1), spec, names=self.labels, top=top)
        done = time.perf_counter()
        latency = Latency((decoded - start + pre) * 1e3, (climbed - decoded - pre) * 1e3, (done - climbed) * 1e3)
        return Result(
            labels, rung.name, self.engine, self.delegate, self.precision, latency, outcome.margin, fallback=self.fallback
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
        """Run every rung `n` times on black pixels, so that the first real answer is not the slowest."""
        for step in self._loaded.steps:
            side = self._rungs[first_rung(self.manifest, step.rung.name)].resolution_px
            self.logits(np.zeros((max(n, 1), side, side, 3), np.uint8), rung=step.rung.name)

    def verify(self) -> tuple[GoldenResult, ...]:
        """Run the bundle's golden images through the loaded payload: one result per rung."""
        return self._loaded.check_goldens(self._reader)


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

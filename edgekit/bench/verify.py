"""Prove a bundle on this machine: golden vectors on every engine, and quality on pictures or texts."""

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import numpy as np

from edgekit.bench.judged import EngineResult, PairResult, TokenizerResult, VerifyResult, judge, picks
from edgekit.bench.labels import match_labels
from edgekit.bench.lanes import Lane, Lanes, answers, open_lanes
from edgekit.runtime.loaded_text import PADDING, LoadedText, golden_ids
from edgekit.runtime.tokens import check_examples, open_encode, shortened
from edgekit.runtime.verify import check_goldens, compare, golden_pixels
from edgekit.spec.bundle import BundleReader
from edgekit.spec.manifest import Manifest

__all__ = ["EngineResult", "FloatLogits", "PairResult", "Pictures", "Texts", "VerifyResult", "padded", "verify_bundle"]

FloatLogits = Callable[[Manifest, np.ndarray], np.ndarray]
"""(manifest, (n, height, width, 3) uint8 pixels or (n, tokens) ids, -1: padding) -> (n, classes) logits of the float network."""

_BATCH = 32
_EMBEDDING = "sentence-embedding"
_PRECISIONS = ("int8", "int8-static", "int8-weights", "fp16", "fp32")


class Pictures(Protocol):
    """What this module needs of a data set; `edgekit.build.data.Dataset` is one."""

    classes: tuple[str, ...]

    @property
    def labels(self) -> tuple[int, ...] | None:
        """Class of every picture."""

    def __len__(self) -> int:
        """Number of pictures."""

    def take(self, n: int, seed: int = 0) -> "Pictures":
        """A part of it."""

    def iter_images(self, *, resolution_px: int, resize_px: int, filter: str) -> Iterator[np.ndarray]:
        """(resolution_px, resolution_px, 3) uint8, one after the other."""


class Texts(Protocol):
    """The same of texts; `edgekit.build.data.Texts` is one."""

    texts: tuple[str, ...]
    classes: tuple[str, ...]
    labels: tuple[int, ...] | None

    def __len__(self) -> int:
        """Number of texts."""

    def take(self, n: int, seed: int = 0) -> "Texts":
        """A part of it."""


def verify_bundle(
    path: Path,
    *,
    data: Pictures | Texts | None = None,
    limit: int | None = None,
    engines: Collection[str] | None = None,
    float_bundle: Path | None = None,
    float_logits: FloatLogits | None = None,
    threads: int = 1,
) -> VerifyResult:
    """Hash every file, run the golden vectors on every installed engine; with data, judge quality and agreement.

    The float network that quality is held against is `float_logits`, else the first fp32 payload of `float_bundle`, else the
    first fp32 payload of the bundle itself; without any, what needs it is None.

    Args:
        path: directory or `.ekb`.
        data: pictures, with labels or not.
        limit: judge on so many of them, spread evenly over the classes.
        engines: only these; None for all that are installed.
        float_bundle: a bundle with an fp32 payload of the same network.
        float_logits: the float network itself.
        threads: of each session.

    Raises:
        BundleError: the bundle must be refused.
        InputError: a label is not a class of the network.
        SetupError: no engine is installed.
    """
    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(open_lanes(path, engines=engines, threads=threads))
        manifest, rung = opened.reader.manifest, opened.reader.manifest.rungs[-1].name
        embeds = manifest.model.task == _EMBEDDING
        results = [_golden_result(lane, opened, rung) for lane in opened.lanes]
        note = ""
        if data is None:
            outputs = answers(opened.lanes, _goldens(opened.reader, rung))
        else:
            data = data if limit is None else data.take(limit)
            labels, note = (
                (None, "embeddings are no classes: accuracy is not judged")
                if embeds
                else match_labels(data.labels, data.classes, opened.reader)
            )
            outputs = answers(opened.lanes, _items(data, opened.reader))
            reference = float_logits or _fp32_of(stack, float_bundle, opened, threads)
            wanted = None if reference is None else _float_picks(reference, manifest, _items(data, opened.reader))
            results = [
                judge(result, logits, labels, wanted, embeds=embeds) for result, logits in zip(results, outputs, strict=True)
            ]
        tokenizer = _tokenizer(opened.reader)
        return VerifyResult(
            all(result.goldens for result in results) and (tokenizer is None or tokenizer.ok),
            _by_engine(opened.lanes, results),
            _pairs(opened.lanes, outputs, embeds=embeds),
            opened.missing,
            note,
            tokenizer,
        )


def _golden_result(lane: Lane, opened: Lanes, rung: str) -> EngineResult:
    if isinstance(lane.session, LoadedText):
        results = lane.session.check_goldens(opened.reader)
        worst = max(result.max_difference for result in results)
        ok = all(result.ok for result in results)
        return EngineResult(lane.payload.id, lane.payload.precision, lane.session.delegate, ok, worst)
    found = check_goldens(lane.session, opened.reader, lane.payload, rung=rung)
    return EngineResult(lane.payload.id, lane.payload.precision, lane.session.delegate, found.ok, found.max_difference)


def _tokenizer(reader: BundleReader) -> TokenizerResult | None:
    if reader.manifest.text is None:
        return None
    found = check_examples(reader, reader.manifest.text)
    return TokenizerResult(found.ok, found.n, int(found.max_difference))


def _pairs(lanes: Sequence[Lane], outputs: Sequence[np.ndarray], *, embeds: bool) -> tuple[PairResult, ...]:
    found = []
    for i, j in itertools.combinations(range(len(lanes)), 2):
        a, b = lanes[i].payload, lanes[j].payload
        if a.precision == b.precision and a.engine != b.engine:
            far = compare(outputs[i], outputs[j])
            same = float(np.mean(picks(outputs[i], embeds=embeds) == picks(outputs[j], embeds=embeds)))
            found.append(PairResult(a.id, b.id, far.n, same, far.mean_steps, far.max_steps, far.equal_share))
    return tuple(found)


def _goldens(reader: BundleReader, rung: str) -> np.ndarray:
    """Golden images, or the golden texts of the longest bucket."""
    text = reader.manifest.text
    return golden_pixels(reader, rung) if text is None else golden_ids(reader, text.max_tokens)


def _items(data: "Pictures | Texts", reader: BundleReader) -> Iterator[np.ndarray]:
    """Pixels or token ids, one picture or text after the other."""
    manifest = reader.manifest
    if manifest.text is not None:
        encode, longest = open_encode(reader, manifest.text), manifest.text.max_tokens
        return (np.asarray(shortened(encode(text), max_tokens=longest)) for text in data.texts)
    rung = manifest.rungs[-1]
    return data.iter_images(resolution_px=rung.resolution_px, resize_px=rung.resize_px, filter=manifest.preprocess.filter)


def _float_picks(reference: FloatLogits, manifest: Manifest, images: Iterator[np.ndarray]) -> np.ndarray:
    """Images or texts -> (n,) `picks` of the float network."""
    found: list[np.ndarray] = []
    while batch := list(itertools.islice(images, _BATCH)):
        found.append(reference(manifest, np.stack(batch) if manifest.text is None else padded(batch)))
    return picks(np.concatenate(found), embeds=manifest.model.task == _EMBEDDING)


def padded(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of token ids -> (n, longest) int64, -1 for padding."""
    found = np.full((len(rows), max(map(len, rows))), PADDING, np.int64)
    for place, row in zip(found, rows, strict=True):
        place[: len(row)] = row
    return found


def _fp32_of(stack: contextlib.ExitStack, other: Path | None, opened: Lanes, threads: int) -> FloatLogits | None:
    if other is not None:
        opened = stack.enter_context(open_lanes(other, threads=threads))
    lane = next((lane for lane in opened.lanes if lane.payload.precision == "fp32"), None)
    if lane is None:
        return None
    run = lane.logits
    return lambda _, items: np.stack([run(item) for item in items])


def _by_engine(lanes: Sequence[Lane], results: Sequence[EngineResult]) -> Mapping[str, EngineResult]:
    found: dict[str, EngineResult] = {}
    order = sorted(zip(lanes, results, strict=True), key=lambda pair: _PRECISIONS.index(pair[0].payload.precision))
    for lane, result in order:
        name = lane.payload.engine
        found[name if name not in found else result.payload] = result
    return MappingProxyType(found)

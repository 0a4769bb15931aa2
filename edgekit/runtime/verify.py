"""Proof that a payload does here what it did where it was built, and that two payloads agree."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgekit.runtime.engines import Session, Tensor
from edgekit.runtime.pixels import apply_table, read_table
from edgekit.spec.errors import BundleError, InputError
from edgekit.spec.manifest import Entry, GoldenOutputs, Manifest, Payload

__all__ = [
    "Comparison",
    "GoldenResult",
    "Reader",
    "check_goldens",
    "compare",
    "first_rung",
    "golden_pixels",
    "input_table",
    "raw_values",
    "result_of",
    "steps_of",
]


class Reader(Protocol):
    """What is needed of an open bundle."""

    @property
    def manifest(self) -> Manifest:
        """The checked manifest."""
        ...

    def read(self, name: str) -> bytes:
        """Content of a bundle path."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class GoldenResult:
    """Outcome of the golden inputs of one rung.

    Attributes:
        n: inputs that were run.
        max_difference: largest difference of an output: steps for integer outputs, absolute for float ones.
        tolerance: largest difference that the bundle accepts.
        ok: all differences within tolerance.
    """

    n: int
    max_difference: float
    tolerance: float
    ok: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """How two sets of outputs for the same inputs agree.

    Attributes:
        n: inputs.
        agreement_top1: share of inputs whose best class is the same.
        mean_steps: mean absolute difference over all outputs.
        max_steps: largest absolute difference.
        equal_share: share of outputs that are equal.
    """

    n: int
    agreement_top1: float
    mean_steps: float
    max_steps: float
    equal_share: float


def input_table(reader: Reader, entry: Entry) -> Tensor:
    """The (3, 256) pixel table of an entry that takes an image.

    Raises:
        BundleError: the entry has none.
    """
    if entry.pixel_table is None:
        raise BundleError(
            f"the entry of rung {entry.rung!r} takes an image but has no pixel table",
            where=entry.file,
            fix="rebuild the bundle",
            code="bundle-table",
        )
    return read_table(reader.read(entry.pixel_table), entry.inputs[0], where=entry.pixel_table)


def golden_pixels(reader: Reader, rung: str) -> NDArray[np.uint8]:
    """(n, height, width, 3) uint8 golden images of a rung; one that continues uses those of the rung where its walk began.

    Raises:
        BundleError: the bundle has none, or the file has another length.
    """
    start = first_rung(reader.manifest, rung)
    for inputs in reader.manifest.golden_inputs:
        if inputs.rung == start:
            return raw_values(reader.read(inputs.file), "uint8", inputs.shape, where=inputs.file)
    raise BundleError(
        f"no golden inputs for rung {rung!r}", where="golden_inputs", fix="rebuild the bundle", code="bundle-goldens"
    )


def _golden_outputs(payload: Payload, rung: str) -> GoldenOutputs:
    for golden in payload.goldens:
        if golden.rung == rung:
            return golden
    raise BundleError(
        f"payload {payload.id!r} has no goldens for rung {rung!r}",
        where="payloads.goldens",
        fix="rebuild the bundle",
        code="bundle-goldens",
    )


def raw_values(data: bytes, dtype: str, shape: tuple[int, ...], *, where: str) -> Tensor:
    """Bytes of a bundle file, little-endian -> array.

    Raises:
        BundleError: the file has another length.
    """
    kind = np.dtype(dtype).newbyteorder("<")
    if len(data) != math.prod(shape) * kind.itemsize:
        raise BundleError(
            f"{len(data)} bytes do not hold {dtype}{list(shape)}", where=where, fix="rebuild the bundle", code="bundle-goldens"
        )
    return np.frombuffer(data, kind).reshape(shape)


def check_goldens(
    session: Session | Callable[..., tuple[Tensor, ...]], reader: Reader, payload: Payload, *, rung: str | None = None
) -> GoldenResult:
    """Run the golden images of one rung through an engine and compare with what the builder recorded.

    Args:
        session: the loaded entry; for a rung that continues, a function from the image's tensor to the outputs of that rung.
        reader: the open bundle.
        payload: the payload that was loaded.
        rung: name of the rung; the payload's first by default.
    """
    entries = {entry.rung: entry for entry in payload.entries}
    rung = rung or payload.entries[0].rung
    expected = _golden_outputs(payload, rung)
    wanted = raw_values(reader.read(expected.file), expected.dtype, expected.shape, where=expected.file)
    entry = entries[first_rung(reader.manifest, rung)]
    table = input_table(reader, entry)
    layout = entry.inputs[0].layout
    run = session if callable(session) else session.run
    # One image at a time: networks have a static batch of one.
    outputs = [run(apply_table(image, table, layout=layout))[0].reshape(-1) for image in golden_pixels(reader, rung)]
    return result_of(outputs, wanted, expected)


def result_of(outputs: Sequence[Tensor], wanted: Tensor, expected: GoldenOutputs) -> GoldenResult:
    """Hold (classes,) outputs, one per golden input, to (n, classes) recorded ones.

    Raises:
        BundleError: their number or shape differs.
    """
    if len(outputs) != len(wanted) or not outputs:
        raise BundleError(
            f"{len(outputs)} golden inputs but {len(wanted)} golden outputs",
            where=expected.file,
            fix="rebuild the bundle",
            code="bundle-goldens",
        )
    difference = _largest_difference(np.stack(outputs), wanted.reshape(len(wanted), -1), where=expected.file)
    return GoldenResult(len(outputs), difference, expected.tolerance, difference <= expected.tolerance)


def first_rung(manifest: Manifest, rung: str) -> str:
    """Name of the rung that takes the image on the way to `rung`: itself, or the one that it continues in the end."""
    names = [item.name for item in manifest.rungs]
    index = names.index(rung)
    while manifest.rungs[index].continues and index:
        index -= 1
    return names[index]


def _largest_difference(outputs: Tensor, wanted: Tensor, *, where: str) -> float:
    if outputs.shape != wanted.shape:
        raise BundleError(
            f"outputs are {list(outputs.shape)}, goldens {list(wanted.shape)}",
            where=where,
            fix="rebuild the bundle",
            code="bundle-goldens",
        )
    difference = float(np.max(np.abs(outputs.astype(np.float64) - wanted.astype(np.float64))))
    # Not a number compares as false with every tolerance, also with an infinite one.
    return math.inf if math.isnan(difference) else difference


def steps_of(outputs: Tensor) -> NDArray[np.float64]:
    """Outputs of any dtype -> float64 on one axis: int8 steps; uint8 is the same quantization with the zero point 128 higher."""
    if outputs.dtype == np.uint8:
        return outputs.astype(np.float64) - 128.0
    return outputs.astype(np.float64)


def compare(a: Tensor, b: Tensor, *, scale: float = 1.0) -> Comparison:
    """(n, classes) and (n, classes) -> agreement; int8 and uint8 may be mixed.

    Args:
        a: outputs of one payload.
        b: outputs of another, for the same inputs.
        scale: size of a step, where the outputs are float.

    Raises:
        InputError: the shapes differ or are empty, or one is float and the other is not.
    """
    if a.shape != b.shape or a.ndim != 2 or a.size == 0 or (a.dtype.kind == "f") != (b.dtype.kind == "f"):
        raise InputError(
            f"cannot compare {a.dtype}{list(a.shape)} with {b.dtype}{list(b.shape)}",
            where="outputs",
            fix="give outputs of the same inputs, both integer or both float",
            code="compare-shapes",
        )
    left, right = steps_of(a), steps_of(b)
    difference = np.abs(left - right) / scale
    return Comparison(
        n=len(a),
        agreement_top1=float(np.mean(left.argmax(axis=1) == right.argmax(axis=1))),
        mean_steps=float(difference.mean()),
        max_steps=float(difference.max()),
        equal_share=float(np.mean(difference == 0)),
    )

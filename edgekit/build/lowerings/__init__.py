"""One file per payload format. Each lowers a quantized or a float program; each is found by its entry point `edgekit.lowerings`.

A lowering module holds

* `NAME`: the engine that runs its payloads; `SUFFIX` of its files; `TOOLS`: the distributions that decide what it writes;
* `lower_integer(quantized, activation_dtype=...) -> Lowered`: an integer payload with integer edges;
* `lower_rungs({rung: quantized}, activation_dtype=...) -> LoweredRungs`: the same of several callable pieces that share weights;
* `lower_float(program, precision=...) -> Lowered`: an `fp32` or `fp16` payload;
* of an engine that `edgekit.build.operators` does not know: `placement(path) -> Placement`, read back from a payload file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgekit.spec.manifest import TensorSpec

if TYPE_CHECKING:
    from edgekit.build.integer import Edge

__all__ = ["Lowered", "LoweredRungs", "Piece", "output_specs"]

OUTPUTS = ("logits", "features")


@dataclass(frozen=True, slots=True)
class Lowered:
    """A payload's bytes and how to call it.

    Attributes:
        payload: the file's content.
        method: method or signature to call; empty where the format has none.
        inputs: what it takes, in order.
        outputs: what it gives, in order.
    """

    payload: bytes
    method: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """How to call one rung.

    Attributes:
        file: which of the files holds it.
        method: method or signature to call; empty where the format has none.
        inputs: the image, or the features of the rung before.
        outputs: logits, then features where the next rung goes on with them.
    """

    file: str
    method: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


@dataclass(frozen=True, slots=True)
class LoweredRungs:
    """Files of one payload and the rungs in them.

    Attributes:
        files: content by name, without suffix.
        pieces: by name of the rung.
    """

    files: Mapping[str, bytes]
    pieces: Mapping[str, Piece]


def output_specs(
    shapes: Sequence[tuple[int, ...]], edges: Sequence["Edge"], *, dtype: str, last: bool = False, names: Sequence[str] = OUTPUTS
) -> tuple[TensorSpec, ...]:
    """Specifications of logits and features.

    Args:
        shapes: of the outputs as torch has them.
        edges: of each, scale and zero point.
        dtype: of all of them.
        last: features lie channels last.
        names: of the tensors.
    """
    found = []
    for name, shape, edge in zip(names, shapes, edges, strict=False):
        image = len(shape) == 4
        size = (shape[0], *shape[2:], shape[1]) if image and last else shape
        found.append(TensorSpec(name, dtype, size, ("NHWC" if last else "NCHW") if image else "NC", edge.scale, edge.zero_point))
    return tuple(found)

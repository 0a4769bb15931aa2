"""What the lowerings of a text network give, and what all three ask of their caller."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from edgekit.build.text.integers import TABLE, Exportable
from edgekit.spec.errors import GoalError, InputError, UnknownName
from edgekit.spec.manifest import TensorSpec

if TYPE_CHECKING:
    from edgekit.build.text.segments import Segment

__all__ = [
    "PRECISIONS",
    "Bucket",
    "SegmentsLowered",
    "TextLowered",
    "bucket",
    "check",
    "check_all",
    "example",
    "segment_bucket",
    "unsupported",
]

PRECISIONS = ("fp32", "fp16", "int8", "int8-weights", "int8-static")
"""float32; float16 weights; INT8 linears whose activations are quantized at run time; INT8 weights and float arithmetic; INT8
linears whose activations have the scales of a calibration. All three INT8 precisions hold an int8 word embedding."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """One sequence length of a payload and how to call it.

    Attributes:
        tokens: the length that every text is padded to.
        method: method (`.pte`) or signature (`.tflite`) to call; empty where one graph takes all lengths.
        inputs: token ids (1, tokens) int64 or int32, or the features (tokens, hidden) float32 of the segment before; and keep
            (1, tokens) float32: 1 for a token, 0 for padding.
        outputs: (1, outputs) float32; of a segment that another continues, then features (tokens, hidden) float32.
    """

    tokens: int
    method: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


@dataclass(frozen=True, slots=True)
class TextLowered:
    """One file that serves all buckets, which share its weights.

    Attributes:
        payload: the file's content.
        buckets: ascending.
    """

    payload: bytes
    buckets: tuple[Bucket, ...]


@dataclass(frozen=True, slots=True)
class SegmentsLowered:
    """Files of one payload that is cut into segments.

    Attributes:
        files: content by name, without suffix; segments in one file share its weights.
        buckets: by name of the rung that a segment ends, in order; its file is the one of its own name, or the only one.
    """

    files: Mapping[str, bytes]
    buckets: Mapping[str, tuple[Bucket, ...]]

    def file_of(self, rung: str) -> str:
        """Name of the file that a rung's segment lies in."""
        return rung if rung in self.files else next(iter(self.files))


def check(plain: Exportable, tokens: tuple[int, ...], *, precision: str, float_layers: Collection[str]) -> None:
    """Refuse a request before any work.

    Raises:
        InputError: `text-buckets`; no buckets, or not ascending.
        UnknownName: no such precision or linear layer.
    """
    if precision not in PRECISIONS:
        raise UnknownName("precision", precision, PRECISIONS)
    if not tokens or tokens[0] < 1 or list(tokens) != sorted(set(tokens)):
        raise InputError(
            f"buckets {tokens} are not ascending lengths",
            where="tokens",
            fix="give for example 16, 32, 64, 128",
            code="text-buckets",
        )
    linears = plain.linears()
    for name in float_layers:
        if name not in linears:
            raise UnknownName("linear layer", name, linears)


def check_all(done: Collection[str], grids: Collection[str], *, engine: str, precision: str) -> None:
    """Refuse a payload in which a linear layer was not found again, and so stayed float.

    Raises:
        GoalError: `float-operator`; names them.
    """
    left = [name for name in grids if name not in done and name != TABLE]
    if left:
        raise GoalError(
            f"{len(left)} linear layers stayed float: the converter changed the weights of {', '.join(left[:4])}",
            where=f"{engine}-{precision}",
            fix="name them as float layers, or leave the engine out with --engines",
            code="float-operator",
        )


def unsupported(engine: str, precision: str, *, why: str) -> GoalError:
    """The error for a precision that an engine cannot serve."""
    return GoalError(
        f"{engine} has no {precision} payload of a text network: {why}",
        where=f"{engine}-{precision}",
        fix=f"build it with --precision int8, or leave {engine} out with --engines",
        code="text-precision",
    )


def bucket(tokens: int, *, method: str, names: tuple[str, str, str], ids_dtype: str, outputs: int) -> Bucket:
    """The edges of one bucket; `names` are those of ids, keep and logits inside the payload."""
    size = (1, tokens)
    ids, keep, logits = names
    return Bucket(
        tokens,
        method,
        (TensorSpec(ids, ids_dtype, size, "NT"), TensorSpec(keep, "float32", size, "NT")),
        (TensorSpec(logits, "float32", (1, outputs), "NC"),),
    )


def segment_bucket(
    segment: "Segment", tokens: int, *, method: str, names: tuple[str, ...], ids_dtype: str, classes: int
) -> Bucket:
    """The edges of one bucket of a segment.

    Args:
        segment: of a network.
        tokens: length.
        method: see `Bucket`.
        names: inside the payload, of ids or features, keep, logits and the next features.
        ids_dtype: of token ids.
        classes: outputs.
    """
    first, keep, logits, following = names
    features = (tokens, segment.hidden)
    x = TensorSpec(first, ids_dtype, (1, tokens), "NT") if segment.begins else TensorSpec(first, "float32", features, "TC")
    outputs = [TensorSpec(logits, "float32", (1, classes), "NC")]
    if not segment.ends:
        outputs.append(TensorSpec(following, "float32", features, "TC"))
    return Bucket(tokens, method, (x, TensorSpec(keep, "float32", (1, tokens), "NT")), tuple(outputs))


def example(tokens: int, *, ids_dtype: torch.dtype = torch.int64) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs to export with: ids (1, tokens) and keep (1, tokens) float32."""
    return torch.zeros(1, tokens, dtype=ids_dtype), torch.ones(1, tokens)

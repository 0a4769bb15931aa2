"""What the runtime answers."""

import dataclasses

from edgekit.spec.codec import UNWRITTEN

__all__ = ["Label", "Latency", "Refusal", "Result"]


@dataclasses.dataclass(frozen=True, slots=True)
class Label:
    """One answer of a classifier: its name, its probability (0..1), its class index."""

    name: str
    score: float
    index: int


@dataclasses.dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds of one run by phase, summed over the rungs that ran: pixels, engine, decoding of the answer."""

    pre: float
    inference: float
    post: float


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """A payload that was not taken, and why.

    Attributes:
        engine: engine of the payload.
        why: one line: not installed, fails its goldens, slower by so much.
        precision: precision of the payload.
    """

    engine: str
    why: str
    precision: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """One answer and how it came about.

    Attributes:
        labels: the best classes, best first.
        rung: name of the rung that gave the answer.
        engine: engine that ran.
        delegate: who ran the network inside the engine.
        precision: precision of the payload.
        latency_ms: time by phase.
        margin: distance of the best from the second logit: quantization steps for integer outputs, logit units for float ones.
        fallback: operators that the delegate left to the engine's own kernels.
        tokens: of a text, [CLS] and [SEP] included, before it was cut; None for an image.
        bucket_tokens: length that the text was padded to; None for an image.
        truncated: whether the end of the text was cut off; None for an image.
    """

    labels: tuple[Label, ...]
    rung: str
    engine: str
    delegate: str
    precision: str
    latency_ms: Latency
    margin: float
    fallback: tuple[str, ...] = ()
    tokens: int | None = dataclasses.field(default=None, metadata=UNWRITTEN)
    bucket_tokens: int | None = dataclasses.field(default=None, metadata=UNWRITTEN)
    truncated: bool | None = dataclasses.field(default=None, metadata=UNWRITTEN)

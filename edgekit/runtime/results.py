"""What the runtime answers."""

import dataclasses

from edgekit.spec.codec import UNWRITTEN

__all__ = ["CEILING", "LAST", "MARGIN", "Label", "Latency", "Refusal", "Result", "RungRun"]

MARGIN, LAST, CEILING = "margin", "last", "ceiling"
"""Why a climb ended: the answer was sure enough, there was no further rung, there was no time for it."""


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
class RungRun:
    """One rung that ran for an answer.

    Attributes:
        name: of the rung.
        margin: distance of its best from its second logit, as in `Result`.
        latency_ms: of this rung alone, pixels included where it starts from the image.
    """

    name: str
    margin: float
    latency_ms: float


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
        rungs: all that ran, in order.
        stopped_by: `margin` where the answer was sure enough, `last` where no rung is left, `ceiling` where no time was.
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
    rungs: tuple[RungRun, ...] = ()
    stopped_by: str = LAST
    tokens: int | None = dataclasses.field(default=None, metadata=UNWRITTEN)
    bucket_tokens: int | None = dataclasses.field(default=None, metadata=UNWRITTEN)
    truncated: bool | None = dataclasses.field(default=None, metadata=UNWRITTEN)

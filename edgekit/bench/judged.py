"""What `verify_bundle` finds, and how a payload's answers are judged."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from edgekit.bench.lanes import Missing
from edgekit.bench.stats import drop_interval

__all__ = ["EngineResult", "PairResult", "TokenizerResult", "VerifyResult", "judge", "picks"]

_BLOCK = 1024
"""Texts that are held to all others at once."""


@dataclasses.dataclass(frozen=True, slots=True)
class EngineResult:
    """One payload on the engine that is installed here.

    Attributes:
        payload: its id.
        precision: of the payload.
        delegate: what really ran it.
        goldens: True if all golden outputs are within their tolerance.
        golden_max_steps: largest difference to them; absolute for float outputs.
        n: pictures judged; 0 without data.
        top1: share of pictures with the right best class; None without labels.
        top1_float: the same of the float network; None without labels or a float network.
        drop_pp: top1_float - top1 in percentage points.
        interval_pp: 95 % interval of `drop_pp`, paired (Newcombe's method 10, see `stats.drop_interval`).
        agreement_float: share of pictures with the float network's best class.
    """

    payload: str
    precision: str
    delegate: str
    goldens: bool
    golden_max_steps: float
    n: int = 0
    top1: float | None = None
    top1_float: float | None = None
    drop_pp: float | None = None
    interval_pp: tuple[float, float] | None = None
    agreement_float: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class PairResult:
    """Two payloads of the same precision on the same pictures, or on the golden images where there are none.

    Attributes:
        a: id of one.
        b: id of the other.
        n: pictures.
        agreement_top1: share of pictures with the same best class.
        mean_steps: mean difference over all outputs, in quantization steps of `a`; absolute for float outputs.
        max_steps: largest difference.
        equal: share of outputs that are the same.
    """

    a: str
    b: str
    n: int
    agreement_top1: float
    mean_steps: float
    max_steps: float
    equal: float


@dataclasses.dataclass(frozen=True, slots=True)
class TokenizerResult:
    """The tokenizer of a text bundle, held to the bundle's example texts: our own, and the `tokenizers` library where it is.

    Attributes:
        ok: every text gives the recorded ids.
        n: texts.
        wrong: texts that give other ids.
    """

    ok: bool
    n: int
    wrong: int


@dataclasses.dataclass(frozen=True, slots=True)
class VerifyResult:
    """All that `verify_bundle` found.

    Attributes:
        ok: every payload that could run gives the golden outputs, and the tokenizer of a text bundle the ids of its examples.
        engines: by engine; where an engine has several payloads, the later ones of int8, fp16, fp32 by payload id.
        pairs: between payloads of the same precision.
        missing: engines that are not installed.
        note: what was not judged, and why; empty if all was.
        tokenizer: of a text bundle; None where the network sees images.
    """

    ok: bool
    engines: Mapping[str, EngineResult]
    pairs: tuple[PairResult, ...]
    missing: tuple[Missing, ...]
    note: str = ""
    tokenizer: TokenizerResult | None = None


def picks(outputs: np.ndarray, *, embeds: bool = False) -> np.ndarray:
    """(n, classes) -> (n,) best classes; of embeddings (n, width) the index of the nearest other text."""
    if not embeds:
        return np.argmax(outputs, axis=1)
    found = []
    for start in range(0, len(outputs), _BLOCK):
        near = outputs[start : start + _BLOCK] @ outputs.T
        near[np.arange(len(near)), np.arange(start, start + len(near))] = -np.inf
        found.append(np.argmax(near, axis=1))
    return np.concatenate(found)


def judge(
    result: EngineResult,
    logits: np.ndarray,
    labels: np.ndarray | None,
    wanted: np.ndarray | None,
    *,
    embeds: bool = False,
) -> EngineResult:
    """Add quality to a result.

    Args:
        result: of the golden vectors.
        logits: (n, classes) outputs of the payload.
        labels: (n,) right classes, if known.
        wanted: (n,) `picks` of the float network, if there is one.
        embeds: the outputs are sentence embeddings.
    """
    best = picks(logits, embeds=embeds)
    found = dataclasses.replace(result, n=len(best))
    if wanted is not None:
        found = dataclasses.replace(found, agreement_float=float(np.mean(best == wanted)))
    if labels is None:
        return found
    right = best == labels
    found = dataclasses.replace(found, top1=float(np.mean(right)))
    if wanted is None:
        return found
    before = wanted == labels
    drop, (low, high) = drop_interval(before, right)
    return dataclasses.replace(found, top1_float=float(np.mean(before)), drop_pp=100 * drop, interval_pp=(100 * low, 100 * high))

"""How alike two networks answer the same texts.

Dynamic INT8 rounds activations as each engine sees fit: by the row, or the whole tensor at once. Payloads of one network then
never give the same bits, however equal their weights are, so they are held to the same answers and to a distance of their logits.
"""

from dataclasses import dataclass

import numpy as np

from edgekit.spec.errors import GoalError

__all__ = ["LEAST_AGREEMENT", "MOST_DISTANCE", "Likeness", "best_of", "check_likeness", "likeness"]

LEAST_AGREEMENT = 0.95
"""Share of texts with the same answer, of a trained network; a random one's answers are near ties and say nothing."""

FEWEST_TEXTS = 100
"""Of fewer, one text near a tie would decide."""

MOST_DISTANCE = 0.25
"""Median over texts of the length of the difference of logits by the length of the logits around their mean."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """Of two sets of answers to n texts.

    Attributes:
        n: texts.
        agreement_top1: share with the same best class; of embeddings, with the same nearest other text.
        distance: see `MOST_DISTANCE`.
        mean_difference: of logits, absolute.
        max_difference: the largest.
    """

    n: int
    agreement_top1: float
    distance: float
    mean_difference: float
    max_difference: float


def best_of(outputs: np.ndarray, *, embeds: bool) -> np.ndarray:
    """(n, outputs) -> (n,) index of the best class; of embeddings, of the nearest other text."""
    if not embeds:
        return outputs.argmax(1)
    near = outputs @ outputs.T
    np.fill_diagonal(near, -np.inf)
    return near.argmax(1)


def likeness(a: np.ndarray, b: np.ndarray, *, embeds: bool) -> Likeness:
    """(n, outputs) of two networks -> how alike they are; distances are by the length of `b`."""
    difference = np.abs(a.astype(np.float64) - b)
    centre = b - b.mean(1, keepdims=True)
    apart = np.linalg.norm(difference, axis=1) / np.maximum(np.linalg.norm(centre, axis=1), 1e-12)
    same = best_of(a, embeds=embeds) == best_of(b, embeds=embeds)
    return Likeness(len(a), float(same.mean()), float(np.median(apart)), float(difference.mean()), float(difference.max()))


def check_likeness(found: Likeness, *, a: str, b: str, trained: bool) -> None:
    """Refuse a payload that answers otherwise.

    Raises:
        GoalError: `parity`.
    """
    apart = found.distance > MOST_DISTANCE
    judged = trained and found.n >= FEWEST_TEXTS
    if not apart and not (judged and found.agreement_top1 < LEAST_AGREEMENT):
        return
    told = (
        f"their logits are {found.distance:.0%} apart (median)"
        if apart
        else f"they agree on {found.agreement_top1:.1%} of {found.n} texts"
    )
    raise GoalError(
        f"{a} and {b} do not say the same: {told}",
        where=a,
        fix="build with --max-drop, which repairs, or with --precision fp16",
        code="parity",
    )

"""How alike two networks of float outputs answer the same texts or photos.

Dynamic INT8 rounds activations as each engine sees fit: by the row, or the whole tensor at once. Payloads of one network then
never give the same bits, however equal their weights are, so they are held to the same answers and to a distance of their logits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from edgekit.spec.errors import GoalError

__all__ = ["FEWEST", "LEAST_AGREEMENT", "MOST_DISTANCE", "Likeness", "best_of", "check_alike", "likeness"]

INT8_TOLERANCE = 0.1
"""Of goldens, as a share of the largest output. An activation that lies between two steps may be rounded otherwise on another
processor, and what follows with it."""

LEAST_AGREEMENT = 0.95
"""Share of examples with the same answer, of a trained network; a random one's answers are near ties and say nothing."""

FEWEST = 100
"""Of fewer examples, one near a tie would decide."""

MOST_DISTANCE = 0.25
"""Median over examples of the length of the difference of logits by the length of the logits around their mean."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """Of two sets of answers to n examples.

    Attributes:
        n: examples.
        agreement_top1: share with the same best class; of embeddings, with the same nearest other example.
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
    """(n, outputs) -> (n,) index of the best class; of embeddings, of the nearest other example."""
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


def check_alike(
    outputs: Mapping[str, np.ndarray],
    *,
    reference: np.ndarray | None = None,
    trained: bool = False,
    embeds: bool = False,
    of: str = "photos",
) -> Mapping[str, Likeness]:
    """Refuse payloads that answer otherwise than a sibling or the float network -> how alike they are, by payload and `a/b`.

    Args:
        outputs: (n, outputs) of each payload, to the same examples.
        reference: the float network's.
        trained: whether answers mean something; those of a random network are near ties, so that only distances count.
        embeds: whether outputs are embeddings.
        of: what the examples are, for people.

    Raises:
        GoalError: `parity`.
    """
    found = {}
    for a, b in combinations(outputs, 2):
        found[f"{a}/{b}"] = _alike(outputs[a], outputs[b], a=a, b=b, trained=trained, embeds=embeds, of=of)
    for name, given in outputs.items() if reference is not None else ():
        found[name] = _alike(given, reference, a=name, b="the float network", trained=trained, embeds=embeds, of=of)
    return found


def _alike(given: np.ndarray, wanted: np.ndarray, *, a: str, b: str, trained: bool, embeds: bool, of: str) -> Likeness:
    near = likeness(given, wanted, embeds=embeds)
    judged = trained and near.n >= FEWEST
    if near.distance <= MOST_DISTANCE and not (judged and near.agreement_top1 < LEAST_AGREEMENT):
        return near
    agreement = f", the same answer on {near.agreement_top1:.1%} (at least {LEAST_AGREEMENT:.0%})" if judged else ""
    raise GoalError(
        f"{a} and {b} disagree on {near.n} {of}: logits {near.distance:.0%} apart (at most {MOST_DISTANCE:.0%}){agreement}",
        where=a,
        fix=f"leave {a.partition('-')[0]} out with --engines, build with --max-drop, which repairs, or with --precision fp32",
        code="parity",
    )

"""What a ladder does on examples to report on: shares, accuracy, cost."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgekit.bench.stats import drop_interval, share_interval
from edgekit.build.ladder.margins import Trials, expected_cost, stops

__all__ = ["RungShare", "ShareRow", "Summary", "summarise"]

SHARES = tuple(i / 10 for i in range(11))


@dataclass(frozen=True, slots=True)
class RungShare:
    """One rung.

    Attributes:
        rung: its name.
        stopped: inputs that it answered.
        share: of all inputs, 0..1.
        top1: share of right answers among them; of all inputs if it answered them all: `top1_alone`. None where it answered none.
        interval: 95 % interval of `top1` (Wilson).
        top1_alone: right answers if it had to answer every input.
        cost: on its own, without the rungs before.
    """

    rung: str
    stopped: int
    share: float
    top1: float | None
    interval: tuple[float, float] | None
    top1_alone: float
    cost: float


@dataclass(frozen=True, slots=True)
class ShareRow:
    """What is right if a rung answered a share of the inputs, those with its largest margins, and the last rung the others.

    Attributes:
        rung: its name.
        share: 0..1.
        top1: of all inputs.
    """

    rung: str
    share: float
    top1: float


@dataclass(frozen=True, slots=True)
class Summary:
    """A ladder on examples that neither trained nor decided anything. Without labels "right" means: as the full network.

    Attributes:
        n: inputs.
        labelled: whether answers were held to labels.
        rungs: each rung.
        top1: of the ladder, 0..1.
        top1_full: of the last rung alone.
        drop_pp: `top1_full - top1` in points.
        interval_pp: its 95 % interval, paired.
        harmful: inputs that the last rung answers right and the ladder wrong.
        helpful: the other way round.
        cost: expected.
        cost_p50: median over the inputs.
        cost_p99: 99th percentile: an input that climbs pays for every rung.
        by_share: accuracy by share, of every rung but the last.
    """

    n: int
    labelled: bool
    rungs: tuple[RungShare, ...]
    top1: float
    top1_full: float
    drop_pp: float
    interval_pp: tuple[float, float]
    harmful: int
    helpful: int
    cost: float
    cost_p50: float
    cost_p99: float
    by_share: tuple[ShareRow, ...] = ()


def summarise(trials: Trials, names: Sequence[str], least: Sequence[float], costs: Sequence[float]) -> Summary:
    """A ladder's margins on examples.

    Args:
        trials: of the examples.
        names: of the rungs.
        least: margins.
        costs: of each rung on its own.
    """
    stopped = stops(trials.margins, least)
    right = trials.right[np.arange(len(trials)), stopped]
    full = trials.right[:, -1]
    drop, (low, high) = drop_interval(full, right)
    paid = np.cumsum(costs)[stopped]
    return Summary(
        n=len(trials),
        labelled=trials.labelled,
        rungs=tuple(_share(trials, i, name, stopped == i, right, costs[i]) for i, name in enumerate(names)),
        top1=float(right.mean()),
        top1_full=float(full.mean()),
        drop_pp=100 * drop,
        interval_pp=(100 * low, 100 * high),
        harmful=int((full & ~right).sum()),
        helpful=int((~full & right).sum()),
        cost=expected_cost(stopped, costs),
        cost_p50=float(np.median(paid)),
        cost_p99=float(np.percentile(paid, 99)),
        by_share=tuple(row for i, name in enumerate(names[:-1]) for row in _by_share(trials, i, name)),
    )


def _by_share(trials: Trials, index: int, name: str) -> list[ShareRow]:
    surest = np.argsort(-trials.margins[:, index], kind="stable")
    rows = []
    for share in SHARES:
        right = trials.right[:, -1].copy()
        taken = surest[: round(share * len(trials))]
        right[taken] = trials.right[taken, index]
        rows.append(ShareRow(name, share, float(right.mean())))
    return rows


def _share(trials: Trials, index: int, name: str, here: np.ndarray, right: np.ndarray, cost: float) -> RungShare:
    count = int(here.sum())
    interval = share_interval(right[here]) if count else None
    top1 = float(right[here].mean()) if count else None
    return RungShare(name, count, count / len(trials), top1, interval, float(trials.right[:, index].mean()), float(cost))

"""What a build with a ladder found, as values for people, programs and reports: free of torch."""

from collections.abc import Mapping
from dataclasses import dataclass

from edgekit.build.ladder.choose import Choice
from edgekit.build.ladder.summary import Summary

__all__ = ["LadderFound"]


@dataclass(frozen=True, slots=True)
class LadderFound:
    """One ladder, chosen and reported on.

    Attributes:
        choice: on the examples that decided.
        engine: whose times were the costs.
        costs_ms: CPU ms of each rung of the pool on its own, by payload, on this machine with one thread.
        report: of each floor on the examples to report on; empty where a plain network was chosen.
        same_stop: share of those examples on which all payloads stop at the same rung.
    """

    choice: Choice
    engine: str
    costs_ms: Mapping[str, Mapping[str, float]]
    report: Mapping[str, Summary]
    same_stop: float

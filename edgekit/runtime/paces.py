"""What rungs take on this device, learned while they run."""

from collections.abc import Iterable, Mapping

from edgekit.runtime.results import RungRun

__all__ = ["Paces"]

WEIGHT = 0.25
"""Of the newest time: one slow run does not close a rung, and a device that grows warm is followed within a few runs."""


class Paces:
    """Smoothed times of rungs. Two threads at once lose at most one of their updates."""

    def __init__(self) -> None:
        """Know nothing."""
        self._expected_ms: dict[str, float] = {}
        self._first: set[str] = set()

    @property
    def expected_ms(self) -> Mapping[str, float]:
        """By name of the rung; without those that never ran."""
        return self._expected_ms

    def learn(self, rungs: Iterable[RungRun]) -> None:
        """Take in what ran. The second time of a rung replaces the first, in which the engine still fills its caches."""
        for run in rungs:
            known = self._expected_ms.get(run.name)
            if known is None:
                self._first.add(run.name)
            weight = 1.0 if known is None or run.name in self._first else WEIGHT
            if known is not None:
                self._first.discard(run.name)
            self._expected_ms[run.name] = (known or 0.0) + weight * (run.latency_ms - (known or 0.0))

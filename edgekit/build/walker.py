"""Runs the chains of a build over one store, and keeps how each stage went."""

from dataclasses import dataclass, field

from edgekit.build.artifact import Artifact
from edgekit.build.pipeline import Observe, Stage, StageRun, run
from edgekit.build.preparing import Walk
from edgekit.build.store import Store

__all__ = ["Walker"]


@dataclass(frozen=True, slots=True)
class Walker:
    """Runs chains and keeps how each stage went."""

    store: Store
    observe: Observe
    runs: dict[str, StageRun] = field(default_factory=dict)

    def telling(self, observe: Observe) -> Walk:
        """A walk that tells `observe`."""

        def walk(name: str, stages: tuple[Stage, ...], source: Artifact) -> Artifact:
            artifact, done = run(stages, source, store=self.store, observe=observe)
            for each in done:
                self.runs.setdefault(each.key, each)
            return artifact

        return walk

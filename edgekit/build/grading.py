"""How good the float networks of a build are: the teacher, the student alone, the one that is built."""

import numpy as np

from edgekit.bench.stats import share_interval
from edgekit.build.artifact import Artifact
from edgekit.build.network import Network
from edgekit.build.outcome import GradedNetwork
from edgekit.build.preparing import Prepared, Walk
from edgekit.build.splits import Splits
from edgekit.build.stages.grade import Grade, read_grade

__all__ = ["grade"]


def grade(
    prepared: Prepared, student: Network, teacher: Network | None, *, splits: Splits, walk: Walk
) -> tuple[GradedNetwork, ...]:
    """Every network that was trained, on the photos to report on."""
    final = "student distilled" if prepared.teacher is not None and prepared.whole is None else "network"
    wanted: list[tuple[str, Network | None, Artifact | None]] = [
        ("teacher", teacher, prepared.teacher),
        ("student alone", student, prepared.alone),
        ("whole" if prepared.teacher is None else "student distilled", student, prepared.whole),
        (final, student, prepared.checkpoint),
    ]
    found = []
    for name, network, checkpoint in wanted:
        if network is not None and checkpoint is not None:
            found.append(_graded(name, walk("float networks", (Grade(network, splits),), checkpoint)))
    return tuple(found)


def _graded(name: str, report: Artifact) -> GradedNetwork:
    told = read_grade(report.path)
    right = np.asarray(told.right)
    return GradedNetwork(name, len(right), float(right.mean()), share_interval(right), told.parameters, told.macs)

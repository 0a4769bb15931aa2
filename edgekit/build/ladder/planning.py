"""What a plan of a ladder says where a build knows more."""

from edgekit.build.artifact import Artifact
from edgekit.build.chains import PLACEHOLDER
from edgekit.build.facts import Facts, read_facts

__all__ = ["UNPLACED", "is_planned", "known_facts"]

UNPLACED = ("(first by measured time)", "(second by measured time)")
"""Exits whose places are not known yet."""


def is_planned(checkpoint: Artifact) -> bool:
    """Whether it is only spoken of: in a plan nothing is written."""
    return checkpoint.digest == PLACEHOLDER


def known_facts(checkpoint: Artifact, otherwise: Facts) -> Facts:
    """What is known of a network that was trained; in a plan what was known before."""
    return otherwise if is_planned(checkpoint) else read_facts(checkpoint.path)

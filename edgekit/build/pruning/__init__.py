"""Structured pruning: channels leave a network in every layer that they run through, and it gets really smaller.

`trace` finds the groups of coupled channels and proves them, `importance` ranks the channels of a group, `sensitivity` measures
what a group is worth, `plan` divides the loss over the groups, `cut` removes, `gradual` does it in rounds.
"""

from edgekit.build.pruning.groups import ChannelGroup, Skipped, Slice, Traced

__all__ = ["ChannelGroup", "Skipped", "Slice", "Traced"]

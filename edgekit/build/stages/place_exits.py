"""`place-exits`: a checkpoint -> the modules behind which exits pay, by measured time."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from edgekit.build.artifact import Artifact
from edgekit.build.facts import read_facts
from edgekit.build.network import Network
from edgekit.build.pipeline import Progress
from edgekit.spec.errors import InputError

__all__ = ["PlaceExits", "read_places"]

PLACES = "places.json"


@dataclass(frozen=True, slots=True)
class PlaceExits:
    """Find places for exits where a SPEC names none.

    The float network is timed in torch on this machine, one thread: shares of time, not times, are what is read from it.

    Attributes:
        network: where it comes from.
        machine: what times depend on.
    """

    network: Network
    machine: str

    name: ClassVar[str] = "place-exits"
    version: ClassVar[int] = 1
    accepts: ClassVar[str] = "checkpoint"
    returns: ClassVar[str] = "report"
    tools: ClassVar[tuple[str, ...]] = ("torch",)

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write `places.json`: all places with their share of the time, and those that were chosen.

        Raises:
            InputError: `exits-none`; the network cannot be cut at two places at least.
        """
        import torch

        from edgekit.build.checkpoint import read_checkpoint
        from edgekit.build.ladder.place_times import time_shares
        from edgekit.build.ladder.places import WANTED, by_time, candidates

        facts = read_facts(source.path)
        module = read_checkpoint(source.path, self.network).eval()
        example = torch.zeros(1, 3, facts.resolution_px, facts.resolution_px)
        progress(0.1, "looking for places to cut")
        places = candidates(module, example)
        if len(places) < len(WANTED):
            raise InputError(
                f"{facts.name} can be cut at {len(places)} places, not at {len(WANTED)}: skip connections cross all others",
                where="--adaptive exits",
                fix="build it without exits, or name one place with --exits-after",
                code="exits-none",
            )
        progress(0.3, f"timing {len(places)} places")
        shares = time_shares(module, [place.name for place in places], example)
        chosen = [places[i].name for i in by_time(shares)]
        told = {"after": chosen, "share_of_time": {p.name: s for p, s in zip(places, shares, strict=True)}}
        (out / PLACES).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def read_places(folder: Path) -> tuple[str, ...]:
    """The modules that were chosen."""
    return tuple(json.loads((folder / PLACES).read_text(encoding="utf-8"))["after"])

"""`grade`: a checkpoint -> which photos to report on the float network gets right, and how large it is."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

from edgekit.build.artifact import Artifact
from edgekit.build.facts import read_facts
from edgekit.build.network import Network
from edgekit.build.pipeline import Progress
from edgekit.build.splits import Splits

__all__ = ["Grade", "Graded", "read_grade"]

FILE = "grade.json"


@dataclass(frozen=True, slots=True)
class Graded:
    """What was found.

    Attributes:
        right: of each photo, whether the first answer is its label.
        parameters: of the network.
        macs: multiply-accumulates of one photo in convolutions and linear layers.
    """

    right: tuple[bool, ...]
    parameters: int
    macs: int


@dataclass(frozen=True, slots=True)
class Grade:
    """Run the float network on the reporting part.

    Attributes:
        network: where it comes from.
        splits: the data.
    """

    network: Network
    splits: Splits

    name: ClassVar[str] = "grade"
    version: ClassVar[int] = 1
    accepts: ClassVar[str] = "checkpoint"
    returns: ClassVar[str] = "report"
    tools: ClassVar[tuple[str, ...]] = ("torch", "torchvision", "pillow")

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write `grade.json`."""
        from edgekit.build.checkpoint import read_checkpoint
        from edgekit.build.training.evaluate import evaluate
        from edgekit.build.training.size import macs_of

        facts = read_facts(source.path)
        module = read_checkpoint(source.path, self.network)
        data = self.splits.open().report
        progress(0.1, f"running {len(data)} photos")
        best = evaluate(module, data, facts).argmax(1)
        labels = data.labels or ()
        right = tuple(bool(a == b) for a, b in zip(best, labels, strict=True))
        graded = Graded(right, sum(p.numel() for p in module.parameters()), macs_of(module, facts.resolution_px))
        (out / FILE).write_text(json.dumps(asdict(graded)) + "\n", encoding="utf-8")


def read_grade(folder: Path) -> Graded:
    """What the stage wrote."""
    data = json.loads((folder / FILE).read_text(encoding="utf-8"))
    return Graded(tuple(data["right"]), int(data["parameters"]), int(data["macs"]))

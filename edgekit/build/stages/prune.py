"""`prune`: a checkpoint -> the same network with fewer channels."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from edgekit.build.artifact import Artifact
from edgekit.build.facts import Facts, read_facts
from edgekit.build.network import Network
from edgekit.build.pipeline import Progress
from edgekit.build.splits import Parts, Splits
from edgekit.build.training.plan import SoftLabels, Training

if TYPE_CHECKING:
    from torch import nn

    from edgekit.build.data import Dataset
    from edgekit.build.pruning.gradual import Pruned
    from edgekit.build.pruning.sensitivity import Judge

__all__ = ["Prune"]

SHORT = Training(epochs=1, learning_rate=5e-4)
LEARN = SoftLabels(temperature=2.0, share=0.8)
"""Between rounds the network learns more from what it was than from labels."""

BATCH = 32


@dataclass(frozen=True, slots=True)
class Prune:
    """Remove the channels that the loss misses least. A longer training afterwards is another stage's.

    Attributes:
        network: where it comes from.
        splits: photos to fit are trained on between rounds; sensitivities are measured on those to tune.
        ratio: share of the cost to remove, 0..1.
        measure: what that is a share of: `parameters` or `macs`.
        round_to: channels that are kept are a multiple of it: kernels compute 8 or 16 at a time.
        rounds: in which the ratio is reached.
        importance: of a group's channels: `l1` of their weights, or `taylor`, measured on photos to fit. Of efficientnet_lite0, a
            quarter of one group at a time, Taylor's choice costs half as much loss as L1's, and a sixth of one by lot.
        training: between rounds; 0 epochs trains nothing.
        sensitivity_photos: at most so many to tune, and as many to fit for Taylor.
    """

    network: Network
    splits: Splits
    ratio: float
    measure: str = "parameters"
    round_to: int = 8
    rounds: int = 3
    importance: str = "taylor"
    training: Training = SHORT
    sensitivity_photos: int = 128

    name: ClassVar[str] = "prune"
    version: ClassVar[int] = 3
    accepts: ClassVar[str] = "checkpoint"
    returns: ClassVar[str] = "checkpoint"
    resumes: ClassVar[bool] = True
    tools: ClassVar[tuple[str, ...]] = ("torch", "torchvision", "timm", "torch-pruning", "numpy", "pillow")

    def run(self, source: Artifact, out: Path, progress: Progress, *, resume: Path | None = None) -> None:
        """Write the smaller network; `history.json` tells of every group."""
        import copy

        from edgekit.build.checkpoint import read_checkpoint, read_history, write_checkpoint
        from edgekit.build.pruning.gradual import Course, prune
        from edgekit.build.structure import read_structure

        facts = read_facts(source.path)
        module = read_checkpoint(source.path, self.network)
        whole = copy.deepcopy(module)
        parts = self.splits.open()
        judge, examples = (
            _judge(part.take(self.sensitivity_photos, self.splits.seed), facts, self.training.device)
            for part in (parts.tune, parts.fit)
        )
        course = Course(self.ratio, self.measure, self.round_to, self.rounds, self.importance, facts.resolution_px)

        def train(module: "nn.Module", number: int, progress: Progress) -> None:
            folder = None if resume is None else resume / f"round-{number}"
            self._train(module, whole, parts, facts, resume=folder, progress=progress)

        short = train if self.training.epochs else None
        pruned = prune(module, course, judge, examples=examples, train=short, resume=resume, progress=progress)
        structure = replace(read_structure(source.path), pruned=True)
        history = {**read_history(source.path), _entry(self.measure): _told(pruned, self)}
        write_checkpoint(out, module, facts, structure=structure, history=history)

    def _train(
        self, module: "nn.Module", whole: "nn.Module", parts: Parts, facts: Facts, *, resume: Path | None, progress: Progress
    ) -> None:
        from edgekit.build.training.lesson import Lesson
        from edgekit.build.training.trainer import train

        labelled = _usable(parts.fit, facts) and _usable(parts.tune, facts)
        soft = LEARN if labelled else replace(LEARN, share=1.0)
        if resume is not None:
            resume.mkdir(parents=True, exist_ok=True)
        train(
            module,
            Lesson(parts.fit, parts.tune, facts, teacher=whole, soft=soft),
            self.training,
            resume=resume,
            progress=progress,
        )


def _entry(measure: str) -> str:
    """Of `history.json`: a network may be pruned by both measures, one after the other."""
    return "prune" if measure == "parameters" else "prune_macs"


def _usable(data: "Dataset", facts: Facts) -> bool:
    """Whether labels are of the network's own classes."""
    return data.labels is not None and len(data.classes) in (0, facts.classes) and max(data.labels) < facts.classes


def _judge(data: "Dataset", facts: Facts, device: str) -> "Judge":
    import torch

    from edgekit.build.pruning.sensitivity import Judge
    from edgekit.build.tensors import batches

    labels = torch.tensor(data.labels).split(BATCH) if data.labels is not None and _usable(data, facts) else None
    return Judge(tuple(batches(data, facts, size=BATCH)), labels, device)


def _told(pruned: "Pruned", stage: Prune) -> dict[str, Any]:
    return {"ratio": stage.ratio, "measure": stage.measure, "round_to": stage.round_to, "rounds": stage.rounds, **asdict(pruned)}

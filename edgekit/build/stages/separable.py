"""`separable`: a checkpoint -> the same network with depthwise and pointwise in place of plain convolutions."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from edgekit.build.artifact import Artifact
from edgekit.build.facts import read_facts
from edgekit.build.network import Network
from edgekit.build.pipeline import Progress
from edgekit.spec.errors import InputError

__all__ = ["Separable"]


@dataclass(frozen=True, slots=True)
class Separable:
    """Factorise weights. What that loses, a training afterwards wins back: another stage's.

    Attributes:
        network: where it comes from.
        layers: names of the convolutions; empty for all that get cheaper.
    """

    network: Network
    layers: tuple[str, ...] = ()

    name: ClassVar[str] = "separable"
    version: ClassVar[int] = 2
    accepts: ClassVar[str] = "checkpoint"
    returns: ClassVar[str] = "checkpoint"
    tools: ClassVar[tuple[str, ...]] = ("torch", "torchvision", "timm")

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write the network; `history.json` tells the multiply-accumulates saved and the error of each layer.

        Raises:
            InputError: `separable-none`, `separable-layer`.
        """
        from edgekit.build.checkpoint import read_checkpoint, read_history, write_checkpoint
        from edgekit.build.separable import factorise
        from edgekit.build.structure import read_structure
        from edgekit.build.training.size import macs_of

        facts, structure = read_facts(source.path), read_structure(source.path)
        if structure.pruned:
            raise InputError(
                "the network was pruned before: replacing layers comes first",
                where=facts.name,
                fix="begin with the network as it was, and let one build replace layers and prune",
                code="separable-pruned",
            )
        module = read_checkpoint(source.path, self.network)
        progress(0.2, "factorising convolutions")
        before = macs_of(module, facts.resolution_px)
        errors = factorise(module, self.layers or None)
        if not errors:
            raise InputError(
                f"{facts.name} has no plain 3x3 convolution beyond its stem: nothing becomes separable",
                where="--separable",
                fix="leave --separable out",
                code="separable-none",
            )
        told = {"macs_before": before, "macs_after": macs_of(module, facts.resolution_px), "weight_errors": dict(errors)}
        names = (*structure.separable, *(name for name, _ in errors))
        history = {**read_history(source.path), "separable": told}
        write_checkpoint(out, module, facts, structure=replace(structure, separable=names), history=history)

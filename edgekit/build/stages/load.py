"""`load`: a name or a file -> a checkpoint: weights and facts."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from edgekit.build.artifact import Artifact
from edgekit.build.facts import Facts
from edgekit.build.network import Network
from edgekit.build.pipeline import Progress
from edgekit.build.user_code import FAILURES, first_line, line_in
from edgekit.spec.errors import InputError

if TYPE_CHECKING:
    from torch import nn

__all__ = ["RANDOM", "Load"]

RANDOM = "random"


@dataclass(frozen=True, slots=True)
class Load:
    """Make the network and check that it takes its image; a random one gets the statistics of real photos.

    Attributes:
        network: where it comes from.
        facts: what is known of it; `classes` may be 0.
        settles: whether a random network gets the statistics of photos; one that is trained next has no use for them.
    """

    network: Network
    facts: Facts
    settles: bool = True

    name: ClassVar[str] = "load"
    version: ClassVar[int] = 7
    accepts: ClassVar[str] = "source"
    returns: ClassVar[str] = "checkpoint"
    tools: ClassVar[tuple[str, ...]] = ("torch", "torchvision", "timm")

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write `weights.pt` and `model.json`."""
        from edgekit.build.checkpoint import write_checkpoint
        from edgekit.build.construct import is_random, make_network
        from edgekit.build.settling import settle
        from edgekit.build.threads import one_thread

        if self.network.weights is not None and self.network.weights.path.is_dir():
            self._copy(self.network.weights.path, out)
            return
        progress(0.1, f"making {self.facts.name}")
        module = make_network(self.network)
        progress(0.3, "trying it on one image")
        classes = _try(module, self.facts, self.network)
        if self.facts.classes and self.network.classes and classes != self.network.classes:
            raise InputError(
                f"the network gives {classes} outputs, --classes asks for {self.network.classes}",
                where=self.facts.name,
                fix="let the factory take `classes`, or leave --classes out",
                code="classes",
            )
        facts = self.facts
        if is_random(self.network):
            if self.settles:
                progress(0.4, "no trained weights: settling random ones on photos")
                with one_thread():
                    settle(module, facts, seed=self.network.seed)
            facts = replace(facts, weights=RANDOM)
        write_checkpoint(out, module, facts.with_classes(classes))

    def _copy(self, folder: Path, out: Path) -> None:
        """A checkpoint of `edgekit fit` is one already; it is loaded once, so that a broken one is refused here."""
        from edgekit.build.checkpoint import WEIGHTS, read_checkpoint, read_history, write_checkpoint
        from edgekit.build.construct import read_weights
        from edgekit.build.ladder.exit_checkpoint import copy_exits
        from edgekit.build.structure import read_structure

        read_weights(folder / WEIGHTS)  # says in words what is wrong with the file
        try:
            module = read_checkpoint(folder, self.network)
        except (OSError, RuntimeError, KeyError, ValueError) as error:
            raise InputError(
                f"the checkpoint is not of this network: {first_line(error).rstrip(':')}",
                where=str(folder),
                fix="write it again with edgekit fit, or name the model that it was fitted from",
                code="weights",
            ) from error
        write_checkpoint(out, module, self.facts, structure=read_structure(folder), history=read_history(folder))
        copy_exits(folder, out)


def _try(module: "nn.Module", facts: Facts, network: Network) -> int:
    """Run one black image -> number of classes.

    Raises:
        InputError: `model-input` or `model-output`.
    """
    import torch

    place = facts.name if network.file is None else str(network.file.path)
    size = (1, 3, facts.resolution_px, facts.resolution_px)
    try:
        with torch.no_grad():
            result = module(torch.zeros(size))
    except FAILURES as error:
        raise InputError(
            f"the network does not take an RGB image of shape {size}: {type(error).__name__}: {first_line(error)}",
            where=line_in(error, network.file.path) if network.file else place,
            fix="give it 3 input channels, or another --resolution; wrap it if it takes more inputs",
            code="model-input",
        ) from error
    if not isinstance(result, torch.Tensor) or result.dim() != 2 or result.shape[0] != 1:
        shown = tuple(result.shape) if isinstance(result, torch.Tensor) else type(result).__name__
        raise InputError(
            f"the network returns {shown}, not logits of shape (1, classes)",
            where=f"{place}, {network.factory}",
            fix="wrap it so that forward(x) returns the logits alone",
            code="model-output",
        )
    return int(result.shape[1])

"""`load`: a name or a file -> a checkpoint: weights and facts."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from edgekit.build.artifact import Artifact
from edgekit.build.facts import Facts, write_facts
from edgekit.build.network import Network
from edgekit.build.pipeline import Progress
from edgekit.spec.errors import InputError

__all__ = ["WEIGHTS", "Load"]

WEIGHTS = "weights.pt"
SETTLING_PHOTOS = 32


@dataclass(frozen=True, slots=True)
class Load:
    """Make the network and check that it takes its image; a random one gets the statistics of real photos.

    Attributes:
        network: where it comes from.
        facts: what is known of it; `classes` may be 0.
    """

    network: Network
    facts: Facts

    name: ClassVar[str] = "load"
    version: ClassVar[int] = 1
    accepts: ClassVar[str] = "source"
    returns: ClassVar[str] = "checkpoint"
    tools: ClassVar[tuple[str, ...]] = ("torch", "torchvision", "timm")

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write `weights.pt` and `model.json`."""
        import torch

        from edgekit.build.construct import make_network

        progress(0.1, f"making {self.facts.name}")
        module = make_network(self.network)
        if self.network.weights is None:
            progress(0.4, "no trained weights: settling random ones on photos")
            settle(module, self.facts, seed=self.network.seed)
        progress(0.8, "trying it on one image")
        classes = _try(module, self.facts)
        if self.facts.classes and self.network.classes and classes != self.network.classes:
            raise InputError(
                f"the network gives {classes} outputs, --classes asks for {self.network.classes}",
                where=self.facts.name,
                fix="let the factory take `classes`, or leave --classes out",
                code="classes",
            )
        torch.save(module.state_dict(), out / WEIGHTS)
        write_facts(out, self.facts.with_classes(classes))


def settle(module: "object", facts: Facts, *, seed: int) -> None:
    """Give a random network activations of a realistic size, so that its payloads can be compared.

    Batch-norm scales that start at zero (the last of a residual block, in some libraries) would erase the blocks; statistics that
    nobody has measured would let activations vanish or explode over fifty layers.
    """
    import torch
    from torch import nn

    from edgekit.build.data import sample_photos
    from edgekit.build.tensors import to_tensor

    if not isinstance(module, nn.Module):
        raise TypeError("not a module")
    norms = [m for m in module.modules() if isinstance(m, nn.BatchNorm2d)]
    for norm in norms:
        if norm.affine and not norm.weight.any():
            nn.init.constant_(norm.weight, 0.5)
        norm.reset_running_stats()
        norm.momentum = None
        norm.train()
    if norms:
        photos = sample_photos("calibration", SETTLING_PHOTOS, seed=seed)
        pixels = photos.images(resolution_px=facts.resolution_px, resize_px=facts.resize_px, filter=facts.filter)
        with torch.no_grad():
            module(to_tensor(pixels, facts))
    module.eval()


def _try(module: "object", facts: Facts) -> int:
    """Run one black image -> number of classes.

    Raises:
        InputError: `model-input` or `model-output`.
    """
    import torch

    size = (1, 3, facts.resolution_px, facts.resolution_px)
    try:
        with torch.no_grad():
            result = module(torch.zeros(size))
    except Exception as error:  # the user's code may raise anything
        raise InputError(
            f"the network does not take an RGB image of shape {size}: {str(error).splitlines()[0][:200]}",
            where=facts.name,
            fix="give it 3 input channels, or another --resolution; wrap it if it takes more inputs",
            code="model-input",
        ) from error
    if not isinstance(result, torch.Tensor) or result.dim() != 2 or result.shape[0] != 1:
        shown = tuple(result.shape) if isinstance(result, torch.Tensor) else type(result).__name__
        raise InputError(
            f"the network returns {shown}, not logits of shape (1, classes)",
            where=facts.name,
            fix="wrap it so that forward(x) returns the logits alone",
            code="model-output",
        )
    return int(result.shape[1])

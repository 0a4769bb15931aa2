"""Feature alignment: hidden maps of a student are drawn towards those of its teacher.

Romero et al., FitNets: Hints for Thin Deep Nets (ICLR 2015, arXiv 1412.6550), section 2.2, with two changes: hints are given at
every scale that both networks have and together with the other losses, and maps are normalised over their channels, so that it
does not matter how large either network makes its numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from edgekit.build.training.trial import undisturbed

__all__ = ["Alignment", "Pair", "last_maps", "pairs_of"]

Size = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two maps of one size.

    Attributes:
        size: (height, width).
        student: name of the module that gives the student's.
        teacher: name of the module that gives the teacher's.
        student_channels: of the map.
        teacher_channels: of the map.
    """

    size: Size
    student: str
    teacher: str
    student_channels: int
    teacher_channels: int


def last_maps(module: nn.Module, x: Tensor) -> dict[Size, tuple[str, int]]:
    """(n, 3, height, width) float32 -> for each size larger than 1x1: (name of the module that gives its last map, channels).

    The module's own output and maps without places, such as gates of squeeze-excite, are left out.
    """
    found: dict[Size, tuple[str, int]] = {}

    def noted(name: str) -> Callable[[nn.Module, object, object], None]:
        def note(_: nn.Module, __: object, output: object) -> None:
            if isinstance(output, Tensor) and output.dim() == 4 and output[0, 0].numel() > 1:
                found[output.shape[2], output.shape[3]] = (name, output.shape[1])

        return note

    # A container ends after what it contains: the last call of a size is the outermost, sums with skip connections included.
    hooks = [layer.register_forward_hook(noted(name)) for name, layer in module.named_modules() if name]
    try:
        with undisturbed(module):
            module(x)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def pairs_of(student: nn.Module, teacher: nn.Module, x: Tensor) -> tuple[Pair, ...]:
    """Maps to align, from large to small; both modules are run once on `x`, as they are."""
    ours, theirs = last_maps(student, x), last_maps(teacher, x)
    common = sorted(ours.keys() & theirs.keys(), reverse=True)
    return tuple(Pair(size, ours[size][0], theirs[size][0], ours[size][1], theirs[size][1]) for size in common)


class Alignment(nn.Module):
    """Projections (1x1 convolutions where channels differ) and the loss; it listens to both networks while it is `attached`."""

    def __init__(self, pairs: tuple[Pair, ...]) -> None:
        """New projections, drawn from torch's generator."""
        super().__init__()
        self.pairs = pairs
        self.projections = nn.ModuleList(
            nn.Identity() if p.student_channels == p.teacher_channels else nn.Conv2d(p.student_channels, p.teacher_channels, 1)
            for p in pairs
        )
        self._heard: dict[tuple[str, Size], Tensor] = {}

    def attach(self, student: nn.Module, teacher: nn.Module) -> tuple[RemovableHandle, ...]:
        """Listen to both from now on, until the handles are removed."""
        handles = []
        for pair in self.pairs:
            for role, module, name in (("student", student, pair.student), ("teacher", teacher, pair.teacher)):
                handles.append(module.get_submodule(name).register_forward_hook(self._hearing(role, pair.size)))
        return tuple(handles)

    def _hearing(self, role: str, size: Size) -> Callable[[nn.Module, object, object], None]:
        def hear(_: nn.Module, __: object, output: object) -> None:
            # A module that is used in several places gives maps of several sizes.
            if isinstance(output, Tensor) and output.dim() == 4 and tuple(output.shape[2:]) == size:
                self._heard[role, size] = output

        return hear

    def loss(self) -> Tensor:
        """() : squared distance of the maps of the last run of both, mean over pairs, channels and places, summed over photos."""
        losses = []
        for pair, projection in zip(self.pairs, self.projections, strict=True):
            ours = projection(self._heard.pop(("student", pair.size)).float())
            theirs = self._heard.pop(("teacher", pair.size)).detach().float()
            losses.append(F.mse_loss(_normalised(ours), _normalised(theirs), reduction="sum") / theirs[0].numel())
        return torch.stack(losses).mean()


def _normalised(maps: Tensor) -> Tensor:
    """(n, channels, height, width) -> (n, height, width, channels): at each place mean 0 and variance 1 over the channels."""
    places = maps.permute(0, 2, 3, 1)
    return F.layer_norm(places, places.shape[-1:])

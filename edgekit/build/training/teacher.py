"""A teacher that takes what its student takes."""

import torch
from torch import nn

from edgekit.build.facts import Facts

__all__ = ["Renormalised", "as_seen_by"]


class Renormalised(nn.Module):
    """A network behind a change from another network's normalisation to its own."""

    def __init__(self, network: nn.Module, *, own: Facts, given: Facts) -> None:
        """Pixels normalised as in `given` become pixels normalised as in `own`."""
        super().__init__()
        self.network = network
        mean, std = (torch.tensor(v, dtype=torch.float64) for v in (own.mean, own.std))
        from_mean, from_std = (torch.tensor(v, dtype=torch.float64) for v in (given.mean, given.std))
        self.register_buffer("scale", (from_std / std).float().reshape(1, -1, 1, 1))
        self.register_buffer("shift", ((from_mean - mean) / std).float().reshape(1, -1, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, 3, height, width) float32 in the other network's normalisation -> (n, classes)."""
        return self.network(x * self.scale + self.shift)


def as_seen_by(student: Facts, teacher: nn.Module, own: Facts) -> nn.Module:
    """The teacher, in evaluation mode, for inputs of the student; `own` are the teacher's facts."""
    if (own.mean, own.std) != (student.mean, student.std):
        teacher = Renormalised(teacher, own=own, given=student)
    return teacher.train(False)

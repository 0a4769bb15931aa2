"""One source of integers: every engine's payload holds these weights, and no engine rounds on its own.

A weight is rounded per output row, symmetrically: `scale = max|w| / 127`. A rounded weight is found again by the same rule, so
each engine's own min-max reading of it gives the same integers, and rounding twice changes nothing.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import nn

from edgekit.spec.errors import UnknownName

__all__ = [
    "LEAST_SCALE",
    "STEPS",
    "TABLE",
    "Exportable",
    "Grid",
    "fingerprint",
    "grid_of",
    "grids_of",
    "matched",
    "names_by_weight",
    "rounded_rows",
    "rounded_weight",
    "snap",
]

TABLE = "table"
"""The word embedding's name among the integers."""

STEPS = 127
LEAST_SCALE = 2.0**-20
"""A row of zeros has some scale too."""


class Exportable(Protocol):
    """What the lowerings need of a network to export: `edgekit.build.text.plain.Plain`."""

    @property
    def table(self) -> nn.Embedding:
        """The word embedding, (vocabulary, hidden) float32."""

    def linears(self) -> dict[str, nn.Linear]:
        """Linear layers that may be quantized, by name, in order of execution."""

    def form(self, *, tokens: int | None, norm: str = "matmul", table: str = "float") -> nn.Module:
        """A module over the same parameters: ids (1, n) integer, keep (1, n) float32 -> (1, outputs) float32."""


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """(rows, columns) int8 and (rows,) float32: the weight is `values * scales[:, None]`."""

    values: np.ndarray
    scales: np.ndarray

    def real(self) -> np.ndarray:
        """-> (rows, columns) float32."""
        return self.values.astype(np.float32) * self.scales[:, None]


def snap(plain: Exportable, *, float_layers: Collection[str] = ()) -> dict[str, Grid]:
    """Round the linear weights and the word embedding to their own grids, in place -> the grids by name.

    Args:
        plain: the network; its forms share the rounded weights.
        float_layers: names of linear layers that are left alone.

    Raises:
        UnknownName: no such linear layer.
    """
    grids = grids_of(plain, float_layers=float_layers)
    linears = plain.linears()
    with torch.no_grad():
        for name, grid in grids.items():
            weight = plain.table.weight if name == TABLE else linears[name].weight
            weight.copy_(torch.from_numpy(grid.real()))
    return grids


def grids_of(plain: Exportable, *, float_layers: Collection[str] = ()) -> dict[str, Grid]:
    """The grids that `snap` rounds to, and nothing rounded: linear layers in order of execution, then the table.

    Raises:
        UnknownName: no such linear layer.
    """
    linears = plain.linears()
    for name in float_layers:
        if name not in linears:
            raise UnknownName("linear layer", name, linears)
    grids = {name: grid_of(linear.weight) for name, linear in linears.items() if name not in float_layers}
    return grids | {TABLE: grid_of(plain.table.weight)}


def grid_of(weight: torch.Tensor) -> Grid:
    """(rows, columns) float32 -> its grid: the nearest step of each row, ties to even."""
    real = weight.detach().to(torch.float32).cpu().numpy()
    scales = np.maximum(np.abs(real).max(axis=1) / np.float32(STEPS), np.float32(LEAST_SCALE))
    steps = np.rint(real / scales[:, None])
    return Grid(np.clip(steps, -STEPS, STEPS).astype(np.int8), scales.astype(np.float32))


def rounded_weight(weight: torch.Tensor) -> torch.Tensor:
    """(rows, columns) float32 -> the same on the grid of `grid_of`; gradients pass as if nothing had happened."""
    real = weight.detach()
    scale = (real.abs().amax(1, keepdim=True) / STEPS).clamp_min(LEAST_SCALE)
    return weight + ((real / scale).round().clamp(-STEPS, STEPS) * scale - real)


def rounded_rows(x: torch.Tensor) -> torch.Tensor:
    """(..., columns) float32 -> the same, each row on an int8 grid of its own with a zero point; gradients pass.

    The grid reaches from the least to the greatest value of the row, zero included, as in XNNPACK's qd8.
    """
    real = x.detach()
    low, high = real.amin(-1, keepdim=True).clamp_max(0), real.amax(-1, keepdim=True).clamp_min(0)
    scale = ((high - low) / 255).clamp_min(torch.finfo(real.dtype).tiny)
    zero = (-128 - low / scale).round()
    steps = ((real / scale).round() + zero).clamp(-128, 127)
    return x + ((steps - zero) * scale - real)


def fingerprint(weight: np.ndarray) -> str:
    """(rows, columns) float32 -> a key under which a converter's copy of the same weight is found again."""
    return f"{weight.shape}:{hashlib.sha256(np.ascontiguousarray(weight, dtype=np.float32).tobytes()).hexdigest()}"


def names_by_weight(linears: Mapping[str, nn.Linear]) -> dict[str, str]:
    """Fingerprint of each linear layer's weight -> its name."""
    return {fingerprint(linear.weight.detach().cpu().numpy()): name for name, linear in linears.items()}


def matched(weights: Iterable[np.ndarray], grids: Mapping[str, Grid]) -> tuple[str, ...]:
    """Integers read back from a payload -> names of the grids that are among them, to the last step."""
    found = {_digest(array) for array in weights}
    return tuple(name for name, grid in grids.items() if _digest(grid.values) in found)


def _digest(integers: np.ndarray) -> str:
    """Of the values in order of rows: not every format keeps the shape."""
    return hashlib.sha256(np.ascontiguousarray(integers, dtype=np.int8).tobytes()).hexdigest()

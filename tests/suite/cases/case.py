"""What a case is. Cases know no backend by more than its name: they say what goes in and what must come out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch import nn

__all__ = ["Case", "Expected"]


@dataclass(frozen=True, slots=True)
class Expected:
    """How one backend departs from the rule for one case; recorded exactly, so that an improvement fails the test as well.

    Attributes:
        islands: types of the operators that stay float inside the integer payload.
        kernels: types of operators that the delegate leaves to the engine's own kernels.
        calls: delegate calls of a `.pte`.
        refused: code of the error with which the backend refuses the case; empty if it lowers.
        wrong: the backend's own converter gives other integers than the simulation.
        wrong_float: the same of its float payloads.
        why: the reason, for the reader of a report.
    """

    islands: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    calls: int = 1
    refused: str = ""
    wrong: bool = False
    wrong_float: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """One operator or one block.

    Attributes:
        name: unique; becomes part of the test's name.
        make: () -> network (1, 3, size_px, size_px) -> (1, n), its weights drawn from the generator that the suite has seeded.
        size_px: side of the input.
        max_steps: largest accepted difference to the simulation in torch, and between two engines.
        mean_steps: largest accepted mean difference.
        min_snr_db: least signal-to-noise ratio of the integer simulation against the float network.
        precisions: float payloads that are built as well.
        fp16_error: largest accepted error of a half-precision payload, relative to the largest output.
        float_layers: layers that stay in float inside the integer payload, as the exported graph names them.
        expected: backend -> how it departs from the rule.
    """

    name: str
    make: Callable[[], nn.Module]
    size_px: int = 16
    max_steps: int = 1
    mean_steps: float = 0.05
    min_snr_db: float = 25.0
    precisions: tuple[str, ...] = ("fp32",)
    fp16_error: float = 5e-3
    float_layers: tuple[str, ...] = ()
    expected: Mapping[str, Expected] = field(default_factory=dict, hash=False)

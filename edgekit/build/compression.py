"""What is wished for beyond a plain build: training on the user's data, a teacher, pruning, and how much may be lost."""

from dataclasses import dataclass
from pathlib import Path

from edgekit.build.model_source import ModelSource

__all__ = ["Compression", "Teacher"]


@dataclass(frozen=True, slots=True)
class Teacher:
    """A network to learn from.

    Attributes:
        model: what it is.
        weights: its weights; None for those that come with it. It is fitted to the data first if its classes are others.
    """

    model: ModelSource
    weights: Path | None = None


@dataclass(frozen=True, slots=True)
class Compression:
    """Every field at its default leaves the network as it is.

    Attributes:
        epochs: to fit on the data; None fits (for `DEFAULT_EPOCHS`) only where the data names other classes than the network has,
            0 never.
        batch_size: photos a step.
        learning_rate: peak; None takes that of each stage.
        device: `auto`, `cpu` or `cuda`, for training.
        teacher: to distil from; None if there is none.
        baseline: whether the student is also trained alone, with equal steps, to tell what the teacher is worth.
        unlabelled: photos without labels that the teacher explains.
        separable: whether plain 3x3 convolutions become depthwise and pointwise ones.
        prune: share of the parameters to remove, 0..1; None prunes nothing.
        prune_macs: share of the multiply-accumulates to remove; None prunes nothing.
        round_to: channels that are kept are a multiple of it; ONNX Runtime has no fast depthwise kernel for other multiples of 8.
        recovery_epochs: of distilled training after pruning or replacing; None as many as `epochs`.
        max_drop_pp: points of the metric that quantization may cost; None does not guard.
        time_budget_min: minutes that repairs may take.
        sensitivity: whether each layer's sensitivity is measured even if nothing needs a repair.
        resolutions_px: sides of photos that a network is fitted at, step by step one of them; empty for its own alone.
    """

    epochs: int | None = None
    batch_size: int = 32
    learning_rate: float | None = None
    device: str = "auto"
    teacher: Teacher | None = None
    baseline: bool = True
    unlabelled: Path | None = None
    separable: bool = False
    prune: float | None = None
    prune_macs: float | None = None
    round_to: int = 16
    recovery_epochs: int | None = None
    max_drop_pp: float | None = None
    time_budget_min: float = 15.0
    sensitivity: bool = False
    resolutions_px: tuple[int, ...] = ()

    @property
    def shapes(self) -> bool:
        """Whether the float network is to become smaller."""
        return self.separable or self.prune is not None or self.prune_macs is not None

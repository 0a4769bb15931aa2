"""Training with the rounding of dynamic INT8 in place, for networks that read text; their weights stay where they are.

Weights are rounded per output row as `integers.snap` does, activations per row at run time as XNNPACK does; gradients pass. A
norm's scale and shift are folded into the linear layers behind it before they are rounded, exactly as in export: what is rounded
here is what is rounded there, whatever is trained.

Sources: Jacob et al., CVPR 2018, section 3 (rounding in training, scales of weights from their range); Bengio et al., arXiv
1308.3432 (straight-through estimator); Zafrir et al., Q8BERT, arXiv 1910.06188 (the same on BERT).
"""

import copy
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgekit.build.pipeline import Progress
from edgekit.build.text.integers import rounded_rows, rounded_weight
from edgekit.build.text.mobilebert import Narrow
from edgekit.build.text.network import TextNetwork
from edgekit.build.training.lesson import Lesson, Trained
from edgekit.build.training.plan import SoftLabels, Training
from edgekit.build.training.trainer import train
from edgekit.build.training.trial import undisturbed
from edgekit.spec.errors import UnknownName

__all__ = ["rounded", "train_rounded"]

_LEAST_GAMMA = 1e-6
"""Below it a channel of a norm is off: what stood behind it cannot be found again, and does not matter."""


class _RoundedLinear(nn.Module):
    """A linear layer whose weight and input are rounded; parameters keep their names."""

    def __init__(self, layer: nn.Linear, norm: nn.Module | None) -> None:
        """The norm, or other scale and shift, whose output the layer reads; None where it reads something else."""
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        self.norm = (norm,)  # in a tuple, so that its parameters do not get second names

    def forward(self, x: Tensor) -> Tensor:
        """(..., columns) float32 -> (..., rows) float32.

        Before: y = W x + b, x = gamma * h + beta. After: y = round(W * gamma) round(h) + (b + W beta).
        """
        (norm,) = self.norm
        if norm is None:
            return F.linear(rounded_rows(x), rounded_weight(self.folded()), self.bias)
        gamma, beta = norm.weight, norm.bias
        on = gamma.detach().abs() > _LEAST_GAMMA
        h = (x - beta) / torch.where(on, gamma, 1.0) * on
        shift = self.weight @ beta if self.bias is None else self.bias + self.weight @ beta
        return F.linear(rounded_rows(h), rounded_weight(self.folded()), shift)

    def folded(self) -> Tensor:
        """(rows, columns) float32: the weight that is rounded."""
        return self.weight if self.norm[0] is None else self.weight * self.norm[0].weight


class _RoundedTable(nn.Module):
    """An embedding whose rows are rounded when they are read; the parameter keeps its name."""

    def __init__(self, layer: nn.Embedding) -> None:
        super().__init__()
        self.weight, self.padding_idx = layer.weight, layer.padding_idx

    def forward(self, ids: Tensor) -> Tensor:
        """(...) int64 -> (..., columns) float32."""
        rows = F.embedding(ids, self.weight, self.padding_idx)
        return rounded_weight(rows.flatten(0, -2)).reshape(rows.shape)


def rounded(network: nn.Module, example: Tensor, *, float_layers: Collection[str] = ()) -> nn.Module:
    """A twin with the same names and weights of its own, whose linear layers and table of words round.

    Args:
        network: (n, length) int64 -> (n, outputs).
        example: something to run it on once, to see which linear layers read a norm's output.
        float_layers: names of linear layers that do not round.

    Raises:
        UnknownName: no such linear layer.
    """
    twin = copy.deepcopy(network)
    linears = {name: layer for name, layer in twin.named_modules() if isinstance(layer, nn.Linear)}
    for name in float_layers:
        if name not in linears:
            raise UnknownName("linear layer", name, linears)
    norms = _norms_before(twin, example)
    for name, layer in linears.items():
        if name not in float_layers:
            twin.set_submodule(name, _RoundedLinear(layer, norms.get(layer)))
    tables = {name: layer for name, layer in twin.named_modules() if isinstance(layer, nn.Embedding)}
    if tables:
        largest = max(tables, key=lambda name: tables[name].num_embeddings)
        twin.set_submodule(largest, _RoundedTable(tables[largest]))
    return twin


def train_rounded(
    network: nn.Module,
    lesson: Lesson,
    training: Training,
    *,
    float_layers: Collection[str] = (),
    resume: Path | None = None,
    progress: Progress = lambda fraction, note: None,
) -> Trained:
    """Train in place with rounding; without a teacher the network as it was is one.

    Args:
        network: (n, length) int64 -> (n, classes); it ends with the best epoch's weights, not rounded: export rounds them.
        lesson: texts.
        training: how long and how fast.
        float_layers: names of linear layers that do not round.
        resume: see `trainer.train`.
        progress: told after each step.

    Raises:
        UnknownName: no such linear layer.
        InputError: the lesson cannot be taught.
        GoalError: `diverged`.
    """
    twin = rounded(network, torch.zeros(2, 8, dtype=torch.int64), float_layers=float_layers)
    soft = replace(lesson.soft or SoftLabels(), features=0.0)
    teacher = lesson.teacher or copy.deepcopy(network)
    trained = train(twin, replace(lesson, teacher=teacher, soft=soft), training, resume=resume, progress=progress)
    network.load_state_dict(twin.state_dict())
    network.eval().requires_grad_(False)
    return trained


def _norms_before(network: nn.Module, example: Tensor) -> dict[nn.Module, nn.Module]:
    """Linear layer -> the module with a scale and a shift of its own whose output it reads, as `rewrite` folds them."""
    outputs: dict[int, tuple[Tensor, nn.Module]] = {}
    found: dict[nn.Module, nn.Module] = {}

    def made(norm: nn.Module, _: object, output: object) -> None:
        if isinstance(output, Tensor):
            outputs[id(output)] = (output, norm)  # the tensor too: ids of dead ones are given again

    def read(layer: nn.Module, inputs: tuple[object, ...]) -> None:
        if inputs and id(inputs[0]) in outputs:
            found[layer] = outputs[id(inputs[0])][1]

    # Those at the end of MobileBERT's ways into the narrow inside are folded into the layer before them, row by row: it does not
    # change the integers, and whoever reads them reads what stands behind them.
    inside = {layer.norm for layer in network.modules() if isinstance(layer, Narrow)}
    hooks = [layer.register_forward_hook(made) for layer in network.modules() if _scales(layer) and layer not in inside]
    hooks += [layer.register_forward_pre_hook(read) for layer in network.modules() if isinstance(layer, nn.Linear)]
    before = network.training
    network.train(False)  # a dropout in between hands on what it gets
    try:
        with undisturbed(network):
            network(example)
    finally:
        network.train(before)
        for hook in hooks:
            hook.remove()
    if isinstance(network, TextNetwork):
        # A pooled state is a mean of states, or one of them, so that it has the last norm's scale and shift.
        reader = network.pooler or network.head
        if reader is not None:
            found[reader] = network.layers[-1].norm2
    return found


def _scales(layer: nn.Module) -> bool:
    weight, bias = (getattr(layer, name, None) for name in ("weight", "bias"))
    return isinstance(weight, nn.Parameter) and isinstance(bias, nn.Parameter) and weight.dim() == bias.dim() == 1

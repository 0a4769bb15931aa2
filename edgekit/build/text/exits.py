"""Early exits of a network that reads text: where they sit, what they are, how they are trained."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from edgekit.build.ladder.exit_training import check_exits
from edgekit.build.pipeline import Progress
from edgekit.build.text.exit_places import exit_layers
from edgekit.build.text.network import DROPOUT, TextNetwork, initialise
from edgekit.build.training.lesson import Lesson, Trained
from edgekit.build.training.plan import Exits, Training
from edgekit.build.training.seeds import LAYERS, seed_of
from edgekit.build.training.trainer import train

__all__ = ["MOST_GROWTH", "StagedText", "TextExit", "head_width", "new_text_exits", "train_text_exits"]

MOST_GROWTH = 0.035
"""Of the network's weights, all heads together: with what else a segment takes, files stay below 5 %."""


class TextExit(nn.Module):
    """(n, hidden) pooled state of a layer -> (n, classes): linear, tanh, linear; of inner width 0 one linear layer."""

    def __init__(self, hidden: int, classes: int, width: int) -> None:
        """Random weights, drawn from torch's generator."""
        super().__init__()
        self.dense = nn.Linear(hidden, width) if width else None
        self.linear = nn.Linear(width or hidden, classes)
        self.dropout = nn.Dropout(DROPOUT)
        self.apply(initialise)

    def forward(self, state: Tensor) -> Tensor:
        """See the class."""
        if self.dense is not None:
            state = torch.tanh(self.dense(state))
        return self.linear(self.dropout(state))


class StagedText(nn.Module):
    """(n, tokens) int64 ids, -1 for padding -> (n, exits + 1, classes) logits, the network's own last: what the trainer takes."""

    def __init__(self, network: TextNetwork, heads: Mapping[str, TextExit], *, joint: bool) -> None:
        """Put heads behind layers; both are shared, not copied.

        Args:
            network: with classes.
            heads: number of a layer, from 1 -> the head that reads its states, ascending.
            joint: whether the network learns too; else it stays in evaluation mode, without dropout.
        """
        super().__init__()
        self.network, self.joint = network, joint
        self.layers = tuple(int(place) for place in heads)
        self.heads = nn.ModuleList(heads.values())

    def train(self, mode: bool = True) -> "StagedText":
        """See `__init__`."""
        super().train(mode)
        if not self.joint:
            self.network.train(False)
        return self

    def forward(self, ids: Tensor) -> Tensor:
        """See the class."""
        heads = dict(zip(self.layers, self.heads, strict=True))
        answers = []
        x = None
        for layer, x in enumerate(self.network.each_state(ids)):
            if layer in heads:
                answers.append(heads[layer](self.network.pool(x, ids)))
        return torch.stack([*answers, self.network.answer(self.network.pool(x, ids))], 1)


def head_width(hidden: int, classes: int, exits: int, *, parameters: int) -> int:
    """Inner width of each of `exits` heads: the network's, halved while the payload would grow too much.

    Where that leaves a quarter as many numbers as classes, or fewer, a head of one linear layer tells more: width 0.

    Args:
        hidden: width of the states.
        classes: outputs.
        exits: number of heads.
        parameters: of the network.
    """
    width, least = hidden, classes // 4
    while width > least and exits * (hidden * width + width * classes) > MOST_GROWTH * parameters:
        width //= 2
    return width if width > least else 0


def new_text_exits(network: TextNetwork, after: Sequence[str], *, seed: int) -> dict[str, TextExit]:
    """New heads behind layers of a network with classes, ascending.

    Args:
        network: with classes.
        after: numbers of layers, from 1; none takes those after one and two thirds.
        seed: of the weights.

    Raises:
        InputError: `exit-layer`.
    """
    layers = exit_layers(network.config.layers, after)
    hidden, classes = network.config.hidden, network.outputs
    width = head_width(hidden, classes, len(layers), parameters=sum(p.numel() for p in network.parameters()))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(seed, LAYERS))
        return {str(layer): TextExit(hidden, classes, width).eval().requires_grad_(False) for layer in layers}


def train_text_exits(
    network: TextNetwork,
    heads: Mapping[str, TextExit],
    lesson: Lesson,
    training: Training,
    *,
    exits: Exits,
    resume: Path | None = None,
    progress: Progress = lambda fraction, note: None,
) -> Trained:
    """Train heads in place, and with `exits.joint` the network under them; its last answer teaches the exits in both cases.

    Zhang et al., Be Your Own Teacher (arXiv 1905.08094); Zhou et al., PABEE (arXiv 2006.04152), for exits behind the layers of
    BERT that are trained together.

    Args:
        network: with classes, fitted.
        heads: from `new_text_exits`; they learn `training.new_factor` times faster than the network.
        lesson: texts with labels.
        training: how long and how fast.
        exits: how they learn.
        resume: see `train`.
        progress: told after each step.

    Raises:
        InputError: see `check_exits` and `train`.
        GoalError: `diverged`.
        OSError: see `train`.
    """
    check_exits(exits, len(heads))
    staged = StagedText(network, heads, joint=exits.joint)
    lesson = replace(lesson, exits=exits, new=tuple(f"heads.{name}" for name, _ in staged.heads.named_parameters()))
    if not exits.joint:
        lesson = replace(lesson, new=(), frozen=tuple(f"network.{name}" for name, _ in network.named_parameters()))
    return train(staged, lesson, training, resume=resume, progress=progress)

"""Training of early exits: behind a network that stays as it is, or together with it."""

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from edgekit.build.data import Dataset
from edgekit.build.ladder.places import check_places
from edgekit.build.ladder.staged import HIDDEN, ExitHead, Staged
from edgekit.build.pipeline import Progress
from edgekit.build.training.device import resolve
from edgekit.build.training.evaluate import evaluate
from edgekit.build.training.kept import Kept
from edgekit.build.training.lesson import Lesson, Trained
from edgekit.build.training.plan import Exits, Training
from edgekit.build.training.record import state_digest
from edgekit.build.training.seeds import LAYERS, seed_of
from edgekit.build.training.trainer import train
from edgekit.spec.errors import InputError

__all__ = ["AllAnswers", "check_exits", "exit_answers", "new_heads", "train_exits"]

_KEPT_SHARE = 0.25
"""Of the memory that is free: rows are kept once and copied once while they are made, and others use the machine too."""


class AllAnswers(nn.Module):
    """(n, 3, h, w) -> (n, exits + 1, classes) logits, the network's own last: what the trainer takes."""

    def __init__(self, staged: Staged, *, joint: bool) -> None:
        """Without `joint` the network stays in evaluation mode: its norms neither look at batches nor learn from them."""
        super().__init__()
        self.staged, self.joint = staged, joint

    def train(self, mode: bool = True) -> "AllAnswers":
        """See `__init__`."""
        super().train(mode)
        if not self.joint:
            self.staged.network.train(False)
        return self

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        return torch.stack(self.staged(x)[: len(self.staged.heads) + 1], 1)


class _Rows(nn.Module):
    """(n, 3, h, w) -> (n, width): the network's answer and the features at all exits, one behind the other."""

    def __init__(self, staged: Staged) -> None:
        super().__init__()
        self.staged = staged

    def forward(self, x: Tensor) -> Tensor:
        outputs = self.staged(x)[len(self.staged.heads) :]
        return torch.cat([output.flatten(1) for output in outputs], 1)


class _HeadsOnRows(nn.Module):
    """(n, width) of `_Rows` -> (n, exits + 1, classes): only the heads, so that nothing else is trained, averaged or kept."""

    def __init__(self, staged: Staged, shapes: tuple[tuple[int, ...], ...]) -> None:
        super().__init__()
        self.heads, self.shapes = staged.heads, shapes

    def forward(self, x: Tensor) -> Tensor:
        last, *features = x.split([math.prod(shape) for shape in self.shapes], 1)
        maps = (each.unflatten(1, shape) for each, shape in zip(features, self.shapes[1:], strict=True))
        return torch.stack([*(head(each) for head, each in zip(self.heads, maps, strict=True)), last], 1)


def new_heads(
    network: nn.Module, places: tuple[str, ...], *, classes: int, resolution_px: int, seed: int, hidden: int = HIDDEN
) -> dict[str, ExitHead]:
    """New heads behind modules, in the order these run.

    Args:
        network: (n, 3, resolution, resolution) -> (n, classes).
        places: names of modules.
        classes: outputs.
        resolution_px: side of the input.
        seed: of the weights.
        hidden: channels of each head's convolution.

    Raises:
        InputError: `exits-none`, or see `check_places`.
    """
    if not places:
        raise InputError(
            "no place for an early exit is known",
            where="exits",
            fix="name modules, such as blocks.6, or add exits_after to the model's SPEC",
            code="exits-none",
        )
    found = check_places(network, places, torch.zeros(1, 3, resolution_px, resolution_px))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(seed, LAYERS))
        return {place.name: ExitHead(place.channels, classes, hidden) for place in found}


def check_exits(exits: Exits, count: int) -> None:
    """Refuse a plan that is not one for `count` exits.

    Raises:
        InputError: `exit-weights`, `exit-share` or `features`.
    """
    if exits.weights and (len(exits.weights) != count or min(exits.weights) <= 0):
        raise InputError(
            f"weights {', '.join(f'{w:g}' for w in exits.weights)} for {count} exits: one above 0 is needed for each",
            where="exits",
            fix="give one weight an exit, or none for equal ones",
            code="exit-weights",
        )
    if not (0 <= exits.soft.share <= 1 and exits.soft.temperature > 0):
        raise InputError(
            f"share {exits.soft.share:g} at temperature {exits.soft.temperature:g}: a share is 0..1, a temperature above 0",
            where="exits",
            fix="take SoftLabels(share=0.5, temperature=3)",
            code="exit-share",
        )
    if exits.soft.features:
        raise InputError(
            f"features={exits.soft.features:g}: exits learn answers of their own network, no maps",
            where="exits",
            fix="leave the feature alignment out: SoftLabels(features=0)",
            code="features",
        )


def train_exits(
    network: nn.Module,
    heads: Mapping[str, ExitHead],
    lesson: Lesson,
    training: Training,
    *,
    exits: Exits,
    resume: Path | None = None,
    progress: Progress = lambda fraction, note: None,
) -> Trained:
    """Train heads in place, and with `exits.joint` the network under them; `train` says the rest.

    Without `exits.joint` the network's answers stay what they are to the bit, and labels may be missing: its last answer is then
    all that teaches. Where photos are not augmented either, the network runs once, if what it gives fits into memory.

    Args:
        network: whose last answer is the best.
        heads: from `new_heads`.
        lesson: photos; with `exits.joint` a teacher too, whom the last answer learns from. The heads count as new tensors then.
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
    labelled = lesson.fit.labels is not None and lesson.tune.labels is not None
    if not (labelled or exits.joint):
        exits = replace(exits, soft=replace(exits.soft, share=1.0))
    staged = Staged(network, heads)
    lesson = replace(lesson, exits=exits)
    if exits.joint:
        heads_new = (f"staged.heads.{name}" for name, _ in staged.heads.named_parameters())
        lesson = replace(lesson, new=(*(f"staged.network.{name}" for name in lesson.new), *heads_new))
        return train(AllAnswers(staged, joint=True), lesson, training, resume=resume, progress=progress)
    lesson = replace(lesson, teacher=None, soft=None, unlabelled=None, new=())
    shapes = _shapes(staged, lesson.facts.resolution_px)
    if not training.augment and not training.resolutions_px and _fits(shapes, len(lesson.fit) + len(lesson.tune)):
        progress(0.0, f"running the network once on {len(lesson.fit) + len(lesson.tune)} photos")
        kept = replace(lesson, fit=_kept(staged, lesson.fit, lesson, training), tune=_kept(staged, lesson.tune, lesson, training))
        return train(_HeadsOnRows(staged, shapes), kept, training, resume=resume, progress=progress)
    module = AllAnswers(staged, joint=False)
    frozen = tuple(f"staged.network.{name}" for name, _ in network.named_parameters())
    return train(module, replace(lesson, frozen=frozen), training, resume=resume, progress=progress)


def exit_answers(network: nn.Module, heads: Mapping[str, ExitHead], lesson: Lesson) -> Tensor:
    """(n, exits + 1, classes) float32 on photos to tune."""
    return torch.from_numpy(evaluate(AllAnswers(Staged(network, heads), joint=False), lesson.tune, lesson.facts))


def _shapes(staged: Staged, side: int) -> tuple[tuple[int, ...], ...]:
    """Of one photo's last answer and features."""
    staged.train(False)
    with torch.no_grad():
        outputs = staged(torch.zeros(1, 3, side, side))[len(staged.heads) :]
    return tuple(tuple(output.shape[1:]) for output in outputs)


def _fits(shapes: tuple[tuple[int, ...], ...], photos: int) -> bool:
    """Whether rows of float32 leave most of the free memory free; where a system does not tell, they do not."""
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return False
    return 4 * photos * sum(math.prod(shape) for shape in shapes) <= _KEPT_SHARE * free


def _kept(staged: Staged, data: Dataset, lesson: Lesson, training: Training) -> Kept:
    device = resolve(training.device)
    rows = evaluate(_Rows(staged), data, lesson.facts, device=device, batch_size=training.micro_batch)
    digest = f"{data.digest} {state_digest(staged.network)}"
    return Kept(data.name, torch.from_numpy(rows), data.labels, data.classes, digest)

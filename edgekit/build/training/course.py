"""A running training: everything that changes while it runs, and how that is kept and taken up again."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from edgekit.build.data import Dataset
from edgekit.build.ladder.resolution_check import check_resolutions
from edgekit.build.training.features import Alignment, pairs_of
from edgekit.build.training.lesson import Epoch, Lesson
from edgekit.build.training.material import lengths_of
from edgekit.build.training.order import Order
from edgekit.build.training.plan import Training
from edgekit.build.training.schedule import optimizer_of
from edgekit.build.training.seeds import LAYERS, seed_of
from edgekit.build.training.trial import undisturbed
from edgekit.spec.digest import canonical_json, sha256_bytes
from edgekit.spec.errors import InputError

__all__ = ["Course", "Sums", "check_outputs", "check_sides"]


@dataclass(slots=True)
class Sums:
    """Of the epoch that runs: loss times samples, right answers, samples to judge, samples, seconds before an interrupt."""

    loss: float = 0.0
    correct: float = 0.0
    judged: int = 0
    samples: int = 0
    seconds: float = 0.0


class Course:
    """One training between its first and its last step.

    Attributes:
        module: that learns.
        alignment: of feature maps with the teacher's; None without one.
        optimizer: over both.
        order: of the samples.
        epoch: that runs, from 1.
        step: finished steps of it.
        sums: of it.
        history: of finished epochs.
        average: running mean of the weights and statistics; empty if none is kept.
        best: weights after the best epoch so far.
    """

    def __init__(self, module: nn.Module, lesson: Lesson, training: Training, *, x: torch.Tensor) -> None:
        """Start from the module's weights; `x` is an input to trace with."""
        extra = 0 if lesson.unlabelled is None else len(lesson.unlabelled)
        self.module, self.lesson, self.training = module, lesson, training
        self.order = Order(
            len(lesson.fit), extra, training.batch_size, training.seed, lengths_of(lesson.fit), training.resolutions_px
        )
        self.alignment = self._aligned(x)
        modules = (module,) if self.alignment is None else (module, self.alignment)
        self.optimizer = optimizer_of(modules, training, new=lesson.new)
        self.epoch, self.step, self.sums = 1, 0, Sums()
        self.history: tuple[Epoch, ...] = ()
        self.best: dict[str, torch.Tensor] = {}
        self.average: dict[str, torch.Tensor] = {}
        if training.average_epochs:
            self.average = {key: value.detach().clone() for key, value in module.state_dict().items()}

    def _aligned(self, x: torch.Tensor) -> Alignment | None:
        teacher, soft = self.lesson.teacher, self.lesson.softness
        if teacher is None or soft is None or not soft.features:
            return None
        torch.manual_seed(seed_of(self.training.seed, LAYERS))
        pairs = pairs_of(self.module, teacher, x)
        return Alignment(pairs).to(x.device) if pairs else None

    @property
    def done(self) -> int:
        """Finished steps."""
        return (self.epoch - 1) * self.order.steps + self.step

    @property
    def steps(self) -> int:
        """Of all epochs."""
        return self.training.epochs * self.order.steps

    @property
    def best_epoch(self) -> int:
        """That answers most samples to tune right, of equals the one with the lowest loss; 0 before one has ended.

        The loss alone rises again long before the answers get worse: a network grows too sure of what it gets wrong.
        """
        return min(self.history, key=lambda e: (-e.tune_top1, e.tune_loss)).epoch if self.history else 0

    @property
    def stopped_early(self) -> bool:
        """Whether neither answers nor loss got better for as many epochs as patience lasts, with epochs left."""
        lowest = min(self.history, key=lambda e: e.tune_loss).epoch if self.history else 0
        waited = len(self.history) - max(self.best_epoch, lowest)
        return 0 < self.training.patience <= waited and len(self.history) < self.training.epochs

    @property
    def over(self) -> bool:
        """Whether nothing is left to do."""
        return self.epoch > self.training.epochs or self.stopped_early

    def remember(self) -> None:
        """Let the weights after a step into their mean, whose memory grows with the steps up to its length."""
        memory = min(self.done, max(1, round(self.training.average_epochs * self.order.steps)))
        now = self.module.state_dict()
        learned = {name for name, parameter in self.module.named_parameters() if parameter.is_floating_point()}
        for key, mean in self.average.items():
            value = now[key].detach()
            # Other buffers, such as ranges that begin at infinity, have no mean.
            if key in learned or key.endswith(("running_mean", "running_var")):
                mean.lerp_(value, 1 / (memory + 1))
            else:
                self.average[key] = value.clone()

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The module with the mean of its weights, for as long as the context lasts."""
        if not self.average:
            yield
            return
        kept = {key: value.detach().clone() for key, value in self.module.state_dict().items()}
        self.module.load_state_dict(self.average)
        try:
            yield
        finally:
            self.module.load_state_dict(kept)

    def close_epoch(self, epoch: Epoch) -> None:
        """Enter a finished epoch, keep its weights if they are the best."""
        self.history = (*self.history, epoch)
        if self.best_epoch == epoch.epoch:
            self.best = {key: value.detach().cpu().clone() for key, value in self.module.state_dict().items()}
        self.epoch, self.step, self.sums = self.epoch + 1, 0, Sums()

    def state(self) -> dict[str, Any]:
        """Tensors and plain values; `model` are the weights, so that the file serves as a file of weights too."""
        return {
            "model": self.module.state_dict(),
            "plan": self._plan(),
            "best": self.best,
            "average": self.average,
            "optimizer": self.optimizer.state_dict(),
            "projections": {} if self.alignment is None else self.alignment.state_dict(),
            "position": [self.epoch, self.step],
            "sums": list(dataclasses.astuple(self.sums)),
            "history": [list(dataclasses.astuple(epoch)) for epoch in self.history],
        }

    def take_up(self, state: dict[str, Any] | None) -> bool:
        """Go on from what `state` gave; False, with nothing changed, if that was of another training."""
        if state is None or state.get("plan") != self._plan():
            return False
        self.module.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.alignment is not None:
            self.alignment.load_state_dict(state["projections"])
        self.best = state["best"]
        for key, mean in self.average.items():
            mean.copy_(state["average"][key])
        self.epoch, self.step = state["position"]
        self.sums = Sums(*state["sums"])
        self.history = tuple(Epoch(*values) for values in state["history"])
        return True

    def _plan(self) -> str:
        """Digest of all that must be equal for two trainings to be one, but for the weights they begin with."""
        lesson = self.lesson
        parts = [lesson.fit.digest, lesson.tune.digest, "" if lesson.unlabelled is None else lesson.unlabelled.digest]
        soft = lesson.softness
        parameters = {name: list(p.shape) for name, p in self.module.named_parameters()}
        plan = dataclasses.asdict(self.training)
        document = {
            "data": parts,
            "new": list(lesson.new),
            "exits": None if lesson.exits is None else dataclasses.asdict(lesson.exits),
            "frozen": list(lesson.frozen),
            "training": plan,
            "soft": None if soft is None else dataclasses.asdict(soft),
        }
        return sha256_bytes(canonical_json({**document, "parameters": parameters}))


def check_outputs(module: nn.Module, lesson: Lesson, x: torch.Tensor) -> None:
    """Run one input through student and teacher.

    Raises:
        InputError: `classes` or `teacher-classes`; either gives another number of outputs than the data has classes.
    """
    with undisturbed(module):
        ours = theirs = module(x).shape[-1]
    if lesson.teacher is not None:
        with undisturbed(lesson.teacher):
            theirs = lesson.teacher(x).shape[1]
    facts = lesson.facts
    if ours != facts.classes:
        raise InputError(
            f"the network has {ours} outputs for {facts.classes} classes",
            where=facts.name,
            fix=f"give it a new head of {facts.classes} outputs",
            code="classes",
        )
    if theirs != facts.classes:
        raise InputError(
            f"the teacher tells {theirs} classes apart, the student {facts.classes}",
            where=f"teacher of {facts.name}",
            fix="fit the teacher to the same data, or name another with --teacher",
            code="teacher-classes",
        )


def check_sides(module: nn.Module, lesson: Lesson, training: Training) -> None:
    """Refuse photos of several sides where the network, or what it learns from, has one.

    Raises:
        InputError: `resolutions`, see `check_resolutions`, or for what are no photos; `features` where maps are aligned.
    """
    if not training.resolutions_px:
        return
    shown = ", ".join(map(str, training.resolutions_px))
    if not isinstance(lesson.fit, Dataset):
        raise InputError(
            f"photos of {shown} px were asked for, the network learns from what is no photo",
            where=lesson.fit.name,
            fix="leave the resolutions out: Training(resolutions_px=())",
            code="resolutions",
        )
    if lesson.softness is not None and lesson.softness.features:
        raise InputError(
            f"features={lesson.softness.features:g}: maps are aligned at one resolution, not at {shown} px",
            where=lesson.facts.name,
            fix="leave the feature alignment out, SoftLabels(features=0), or train at one resolution",
            code="features",
        )
    check_resolutions(module, training.resolutions_px, name=lesson.facts.name)
    if lesson.teacher is not None:
        check_resolutions(lesson.teacher, training.resolutions_px, name=f"the teacher of {lesson.facts.name}")

"""The one trainer. On a CPU the same lesson and plan give the same bits, however often it was interrupted.

Nothing is drawn from a generator that remembers: order, crops and dropout follow from seed, epoch, step and index. A checkpoint
therefore holds what was computed, and no state of any generator.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from edgekit.build.pipeline import Progress
from edgekit.build.training import checkpoints
from edgekit.build.training.course import Course, check_outputs, check_sides
from edgekit.build.training.device import fork_devices, resolve
from edgekit.build.training.lesson import Lesson, Trained, check_lesson
from edgekit.build.training.material import example
from edgekit.build.training.plan import Training
from edgekit.build.training.running import Run
from edgekit.build.training.trial import undisturbed

__all__ = ["train"]

LEAST_MOMENTUM = 0.1
"""Of batch norms' running statistics. Networks made for weeks of training remember thousands of steps (0.01 and less): after a
short training they would still hold the statistics of weights that are gone."""


def _silent(fraction: float, note: str) -> None:
    pass


def train(
    module: nn.Module, lesson: Lesson, training: Training, *, resume: Path | None = None, progress: Progress = _silent
) -> Trained:
    """Train in place; the module ends with the best epoch's weights, in evaluation mode, without gradients, on the CPU.

    All floating parameters are trained but those that the lesson calls frozen. The mode is set by `module.train(...)` alone, so a
    module may decide what it means.
    Where a step is cut into parts, batch norms see one part at a time; everything else is as if it were whole.

    Args:
        module: the network; its weights are where it starts.
        lesson: photos or texts, and teacher.
        training: how long and how fast.
        resume: folder of checkpoints; what an equal training left there is taken up.
        progress: told after each step.

    Raises:
        InputError: the lesson cannot be taught, see `check_lesson`, `check_outputs` and `check_sides`.
        SetupError: there is no GPU.
        GoalError: `diverged`; the loss is no number any more.
        OSError: a checkpoint cannot be written; the one before it is as it was.
    """
    check_lesson(lesson)
    device = resolve(training.device)
    training = replace(training, device=device)
    with torch.random.fork_rng(devices=fork_devices(device)), _placed(module, lesson, device) as x:
        check_outputs(module, lesson, x)
        check_sides(module, lesson, training)
        course = Course(module, lesson, training, x=x)
        run = Run(course, checkpoints.Keeper(resume), progress, x)
        if resume is not None:
            course.take_up(checkpoints.read(resume / checkpoints.FILE))
        with _attached(course):
            while not course.over:
                run.epoch()
        if course.best:
            module.load_state_dict(course.best)
    aligned = 0 if course.alignment is None else len(course.alignment.pairs)
    return Trained(course.done, len(course.history), course.stopped_early, course.history, course.best_epoch, aligned)


@contextmanager
def _placed(module: nn.Module, lesson: Lesson, device: str) -> Iterator[torch.Tensor]:
    """Student and teacher on the device, ready to learn, and back again; gives an `example` there."""
    modules = (module,) if lesson.teacher is None else (module, lesson.teacher)
    norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.momentum is not None]
    memories, frozen = [norm.momentum for norm in norms], set(lesson.frozen)
    x = example(lesson.fit, lesson.facts, device=device)
    try:
        for one in modules:
            one.to(device)
            one.train(False)
        if x.dim() == 4:
            x = _laid_out(modules, x)
        for name, parameter in module.named_parameters():
            parameter.requires_grad_(parameter.is_floating_point() and name not in frozen)
        for norm, memory in zip(norms, memories, strict=True):
            norm.momentum = max(memory, LEAST_MOMENTUM)
        yield x
    finally:
        for norm, memory in zip(norms, memories, strict=True):
            norm.momentum = memory
        module.train(False)
        module.requires_grad_(False)
        for parameter in module.parameters():
            parameter.grad = None
        for one in modules:
            one.to("cpu", memory_format=torch.contiguous_format)


def _laid_out(modules: tuple[nn.Module, ...], x: torch.Tensor) -> torch.Tensor:
    """`x` as convolutions like it (almost twice as fast, on a CPU too): channels last, unless a network has views of rows."""
    last = x.contiguous(memory_format=torch.channels_last)
    try:
        for module in modules:
            module.to(memory_format=torch.channels_last)
            with undisturbed(module):
                module(last)
    except RuntimeError:
        for module in modules:
            module.to(memory_format=torch.contiguous_format)
        return x
    return last


@contextmanager
def _attached(course: Course) -> Iterator[None]:
    handles = ()
    if course.alignment is not None and course.lesson.teacher is not None:
        handles = course.alignment.attach(course.module, course.lesson.teacher)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()

"""Prune in rounds: the ratio is approached geometrically, and between rounds the network learns from what it was.

Source: Han et al., Learning both weights and connections for efficient neural networks (NeurIPS 2015), section 3.4: pruned and
trained in turns a network loses far less than pruned at once.
"""

import io
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from edgekit.build.pipeline import Progress
from edgekit.build.pruning.cut import Removal, cut, least_important, left
from edgekit.build.pruning.groups import ChannelGroup, Skipped, Slice, Traced
from edgekit.build.pruning.importance import by_taylor, by_weight
from edgekit.build.pruning.plan import MEASURES, Target, plan
from edgekit.build.pruning.proof import prove
from edgekit.build.pruning.sensitivity import SHARES, Judge, loss_rises
from edgekit.build.pruning.steps import Prunable
from edgekit.build.pruning.trace import trace
from edgekit.build.structure import reshape
from edgekit.build.training.size import macs_of
from edgekit.spec.errors import InputError

__all__ = ["IMPORTANCES", "Course", "GroupReport", "Pruned", "prune"]

IMPORTANCES = ("l1", "taylor")

Train = Callable[[nn.Module, int, Progress], None]
"""(network, number of the round from 1, progress): train in place; the same arguments give the same weights."""


@dataclass(frozen=True, slots=True)
class Course:
    """How to prune.

    Attributes:
        ratio: share to remove, 0..1.
        measure: `parameters` or `macs`.
        round_to: channels that pruned groups keep are a multiple of it.
        rounds: in which the ratio is reached.
        importance: `l1` or `taylor`.
        resolution_px: of the network's input.
    """

    ratio: float
    measure: str
    round_to: int
    rounds: int
    importance: str
    resolution_px: int

    def check(self) -> None:
        """Refuse what means nothing.

        Raises:
            InputError: `prune`.
        """
        for value, known, what in ((self.measure, MEASURES, "measure"), (self.importance, IMPORTANCES, "importance")):
            if value not in known:
                raise InputError(
                    f"unknown {what} {value!r} to prune by", where=what, fix=f"use one of {', '.join(known)}", code="prune"
                )
        if self.rounds < 1 or self.round_to < 1:
            raise InputError(
                f"{self.rounds} rounds and multiples of {self.round_to} mean nothing",
                where="prune",
                fix="use at least 1",
                code="prune",
            )


@dataclass(frozen=True, slots=True)
class GroupReport:
    """One group: its channels before and after, and the rise of the loss in nats at each share removed alone."""

    name: str
    channels_before: int
    channels_after: int
    rises: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Pruned:
    """What became of the network; counts are of parameters and of multiply-accumulates of one photo."""

    parameters_before: int
    parameters_after: int
    macs_before: int
    macs_after: int
    groups: tuple[GroupReport, ...]
    skipped: tuple[Skipped, ...]


def prune(
    module: nn.Module,
    course: Course,
    judge: Judge,
    *,
    examples: Judge | None = None,
    train: Train | None = None,
    resume: Path | None = None,
    progress: Progress,
) -> Pruned:
    """Remove channels, in place; the module ends in evaluation mode, without gradients, on the CPU.

    Args:
        module: the network, on the CPU.
        course: how far and how.
        judge: photos that sensitivities are measured on.
        examples: photos that Taylor importances are measured on; None takes the same, which flatters them.
        train: called between rounds; None trains nothing.
        resume: folder where finished rounds are kept, and taken up from.
        progress: told as it goes.

    Raises:
        InputError: `prune`, `prune-trace`, `prune-ratio`; before anything slow.
    """
    course.check()
    progress(0.0, "following channels")
    traced = trace(module, resolution_px=course.resolution_px)
    before = traced.costs.of(traced.units)
    _plan(traced, traced.units, None, course, target=Target(course.ratio, course.measure, *before))
    if resume is not None:
        resume.mkdir(parents=True, exist_ok=True)
    examples = judge if examples is None else examples
    rises = _sensitivities(
        module, traced, course, judge=judge, examples=examples, resume=resume, progress=_between(progress, 0.02, 0.5)
    )
    groups, done = _taken_up(module, traced.groups, course.rounds, resume)
    for number in range(done + 1, course.rounds + 1):
        start, end = (0.5 + 0.5 * n / course.rounds for n in (number - 1, number))
        progress(start, f"pruning, round {number} of {course.rounds}")
        # The last round takes the ratio itself: 1 - (1 - x) is not always x.
        reached = course.ratio if number == course.rounds else 1 - (1 - course.ratio) ** (number / course.rounds)
        keep = _plan(traced, _units(groups), rises, course, target=Target(reached, course.measure, *before))
        removals = _removals(groups, keep, _scores(module, groups, course, examples))
        prove(module, removals, resolution_px=course.resolution_px)
        cut(module, removals)
        groups = left(removals)
        if train is not None and number < course.rounds:
            train(module, number, _between(progress, start, end))
        _keep(module, groups, number, resume)
    return _report(module, traced, groups, before, rises, course)


def _units(groups: Sequence[ChannelGroup]) -> tuple[int, ...]:
    return tuple(group.units for group in groups)


def _plan(
    traced: Traced, units: Sequence[int], rises: Sequence[tuple[float, ...]] | None, course: Course, *, target: Target
) -> tuple[int, ...]:
    """Without rises it only shows whether the target can be met."""
    flat = (0.0,) * len(SHARES)
    prunables = [
        Prunable(group.name, n, group.units, group.blocks, flat if rises is None else rises[i], SHARES)
        for i, (group, n) in enumerate(zip(traced.groups, units, strict=True))
    ]
    return plan(traced.costs, prunables, target, round_to=course.round_to)


def _removals(groups: Sequence[ChannelGroup], keep: Sequence[int], scores: Sequence[torch.Tensor]) -> list[Removal]:
    return [(g, least_important(score, g.units - n)) for g, n, score in zip(groups, keep, scores, strict=True)]


def _scores(module: nn.Module, groups: Sequence[ChannelGroup], course: Course, examples: Judge) -> tuple[torch.Tensor, ...]:
    if course.importance == "taylor":
        return by_taylor(module, groups, examples.batches, device=examples.device)
    return by_weight(module, groups)


def _between(progress: Progress, start: float, end: float) -> Progress:
    return lambda fraction, note: progress(start + (end - start) * fraction, note)


def _sensitivities(
    module: nn.Module, traced: Traced, course: Course, *, judge: Judge, examples: Judge, resume: Path | None, progress: Progress
) -> tuple[tuple[float, ...], ...]:
    path = None if resume is None else resume / "sensitivity.json"
    if path is not None and path.is_file():
        return tuple(tuple(rises) for rises in json.loads(path.read_text(encoding="utf-8")))
    scores = _scores(module, traced.groups, course, examples)
    rises = loss_rises(module, traced.groups, scores, judge, progress=progress)
    if path is not None:
        _write(path, json.dumps(rises).encode())
    return rises


def _keep(module: nn.Module, groups: Sequence[ChannelGroup], number: int, resume: Path | None) -> None:
    """A finished round: weights, and where the groups lie in them."""
    if resume is None:
        return
    # On a full disk torch's own writer ends the whole process.
    buffer = io.BytesIO()
    places = {f"{g.name}/{s.tensor}/{s.axis}": torch.tensor(s.units) for g in groups for s in g.slices}
    torch.save({"state": module.state_dict(), "places": places, "channels": [g.channels for g in groups]}, buffer)
    _write(resume / f"pruned-{number}.pt", buffer.getvalue())


def _taken_up(
    module: nn.Module, groups: tuple[ChannelGroup, ...], rounds: int, resume: Path | None
) -> tuple[tuple[ChannelGroup, ...], int]:
    """(groups, number of the last finished round), which the module then has the weights of."""
    number = next((n for n in range(rounds, 0, -1) if resume is not None and (resume / f"pruned-{n}.pt").is_file()), 0)
    if resume is None or number == 0:
        return groups, 0
    kept = torch.load(resume / f"pruned-{number}.pt", weights_only=True)
    reshape(module, kept["state"])
    module.load_state_dict(kept["state"])
    after = []
    for group, channels in zip(groups, kept["channels"], strict=True):
        places = [(s, kept["places"][f"{group.name}/{s.tensor}/{s.axis}"]) for s in group.slices]
        slices = tuple(Slice(s.tensor, s.axis, tuple(units.tolist())) for s, units in places)
        after.append(replace(group, channels=channels, slices=slices))
    return tuple(after), number


def _write(path: Path, data: bytes) -> None:
    """All or nothing: what is killed half way must not be taken up."""
    part = path.with_suffix(".part")
    part.write_bytes(data)
    os.replace(part, path)


def _report(
    module: nn.Module,
    traced: Traced,
    groups: Sequence[ChannelGroup],
    before: tuple[int, int],
    rises: Sequence[tuple[float, ...]],
    course: Course,
) -> Pruned:
    """Counted in the network as it is, not taken from the plan."""
    module.eval().requires_grad_(False)
    reports = [
        GroupReport(whole.name, whole.channels, now.channels, rise)
        for whole, now, rise in zip(traced.groups, groups, rises, strict=True)
    ]
    parameters = sum(parameter.numel() for parameter in module.parameters())
    macs = macs_of(module, course.resolution_px)
    return Pruned(before[0], parameters, before[1], macs, tuple(reports), traced.skipped)

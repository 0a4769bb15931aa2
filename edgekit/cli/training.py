"""Options of what trains and compresses, shared by `build` and `fit`, and the tables of what came of it."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgekit.build.compression import Compression, Teacher
from edgekit.build.text.kinds import refuse_checkpoint_of_another_kind, refuse_teacher_of_another_kind
from edgekit.cli import checks
from edgekit.cli.options import MINUTES, PERCENTAGE_POINTS, POSITIVE, SHARE
from edgekit.cli.screen import Screen
from edgekit.spec.errors import InputError

if TYPE_CHECKING:
    from edgekit.build.model_source import ModelSource
    from edgekit.build.outcome import GradedNetwork, Guarded

__all__ = ["compression", "guard_options", "print_guard", "print_networks", "training_options"]

_TRAINING = (
    click.option("--epochs", type=click.IntRange(0, 10_000), help="To fit on --data. [5 where it has other classes, else 0]"),
    click.option("--batch-size", type=POSITIVE, default=32, show_default=True, help="Photos or texts a step."),
    click.option("--learning-rate", type=click.FloatRange(0, 10, min_open=True), help="Peak. [by stage: 0.001 to fit]"),
    click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True, help="To train on."),
    click.option("--teacher", help="Distil from this network, named as for --model."),
    click.option("--teacher-weights", type=click.Path(path_type=Path), help="Weights of the teacher."),
    click.option("--baseline/--no-baseline", default=True, show_default=True, help="Also train the student alone, to compare."),
    click.option(
        "--unlabelled", type=click.Path(path_type=Path), help="More photos or texts, without labels, that the teacher explains."
    ),
    click.option("--separable", is_flag=True, help="Replace plain 3x3 convolutions by depthwise and pointwise ones."),
    click.option("--prune", type=SHARE, metavar="RATIO", help="Remove channels that hold this share of the parameters."),
    click.option("--prune-macs", type=SHARE, metavar="RATIO", help="Remove channels that take this share of the MACs."),
    click.option("--round-to", type=click.Choice(["8", "16"]), default="16", show_default=True, help="Channels, a multiple."),
    click.option("--recovery-epochs", type=click.IntRange(0, 10_000), help="After pruning or replacing. [as --epochs]"),
)

_GUARD = (
    click.option("--max-drop", type=PERCENTAGE_POINTS, metavar="PP", help="Points of accuracy that INT8 may cost, proved."),
    click.option("--time-budget", type=MINUTES, default=15.0, show_default=True, metavar="MIN", help="For repairs."),
    click.option("--sensitivity", is_flag=True, help="Measure what each layer costs when it alone is quantized."),
)


def training_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that train, as a dict would hold them: pass them on to `compression`."""
    for option in reversed(_TRAINING):
        function = option(function)
    return function


def guard_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the guard."""
    for option in reversed(_GUARD):
        function = option(function)
    return function


def compression(told: dict[str, Any], *, student: "ModelSource") -> Compression:
    """Parsed options -> what is wished for of `student`; files that it names were checked.

    Raises:
        InputError: options that exclude each other, or a file that cannot be used.
    """
    from edgekit import catalog

    if told["prune"] is not None and told["prune_macs"] is not None:
        raise InputError(
            "--prune and --prune-macs are both given",
            where="--prune-macs",
            fix="leave one out: either parameters or MACs set the ratio",
            code="prune-both",
        )
    if told["teacher"] is None and (told["teacher_weights"] is not None or told["unlabelled"] is not None):
        option = "--teacher-weights" if told["teacher_weights"] is not None else "--unlabelled"
        raise InputError(f"{option} without a teacher", where=option, fix="add --teacher NAME", code="teacher-missing")
    checks.data(told["unlabelled"], text=student.reads_text, option="--unlabelled")
    checks.weights(told["teacher_weights"], text=student.reads_text, option="--teacher-weights")
    teacher = None
    if told["teacher"] is not None:
        teacher = Teacher(catalog.find_model(told["teacher"]), told["teacher_weights"])
    wish = Compression(
        epochs=told["epochs"],
        batch_size=told["batch_size"],
        learning_rate=told["learning_rate"],
        device=told["device"],
        teacher=teacher,
        baseline=told["baseline"],
        unlabelled=told["unlabelled"],
        separable=told["separable"],
        prune=told["prune"],
        prune_macs=told["prune_macs"],
        round_to=int(told["round_to"]),
        recovery_epochs=told["recovery_epochs"],
        max_drop_pp=told.get("max_drop"),
        time_budget_min=told.get("time_budget", 15.0),
        sensitivity=told.get("sensitivity", False),
    )
    refuse_teacher_of_another_kind(student, wish)
    refuse_checkpoint_of_another_kind(student, wish.teacher.weights if wish.teacher else None, option="--teacher-weights")
    return wish


def print_networks(screen: Screen, networks: "tuple[GradedNetwork, ...]") -> None:
    """The float networks on photos or texts that no training saw."""
    from edgekit.cli.figures import percent

    if networks:
        screen.table(
            ("float network", "top-1", "95 %", "examples", "parameters", "MACs"),
            [
                (
                    network.name,
                    percent(network.top1),
                    f"{percent(network.interval[0])} to {percent(network.interval[1])}",
                    str(network.n),
                    f"{network.parameters / 1e6:.2f} M",
                    f"{network.macs / 1e6:.0f} M",
                )
                for network in networks
            ],
            right=("top-1", "examples", "parameters", "MACs"),
        )


def print_guard(screen: Screen, guarded: "Guarded | None") -> None:
    """What each attempt costs and gained."""
    from edgekit.cli.figures import UNKNOWN, percent, points

    if guarded is None:
        return
    screen.table(
        ("attempt", "drop, pp", "at most (95 %)", "gained", "time", "what"),
        [
            (
                f"{attempt.name}{' *' if attempt is guarded.chosen else ''}",
                points(attempt.worst.drop_pp) if attempt.worst else UNKNOWN,
                points(attempt.worst.bound_pp) if attempt.worst else UNKNOWN,
                UNKNOWN if attempt.gained_pp is None else f"{attempt.gained_pp:+.2f}",
                f"{attempt.seconds:.0f} s",
                attempt.what or attempt.why_not,
            )
            for attempt in guarded.attempts
        ],
        right=("drop, pp", "at most (95 %)", "gained", "time"),
    )
    if guarded.chosen.worst is not None and guarded.chosen.kept:
        worst = guarded.chosen.worst
        screen.line(
            f"promised: {guarded.metric} of at least {percent(worst.metric_low)}, at most {worst.bound_pp:.2f} points below "
            f"float (each 95 %, {worst.n} examples to decide on, none of them trained or reported on)"
        )

"""Options of a ladder, the table of what was weighed, and the drawing of what was built."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgekit.build.compression import Teacher
from edgekit.build.ladder.wish import DEFAULT_DROP_PP, KINDS, Adaptive
from edgekit.cli import checks
from edgekit.cli.options import NameList, Sides, flat
from edgekit.cli.screen import Screen
from edgekit.spec.errors import InputError

if TYPE_CHECKING:
    from edgekit.build.ladder.choose import Option
    from edgekit.build.ladder.findings import Drawn
    from edgekit.build.ladder.found import LadderFound
    from edgekit.build.ladder.summary import Summary
    from edgekit.build.model_source import ModelSource

__all__ = ["adaptive", "draw", "full_resolution", "ladder_options", "print_ladder"]

BAR = 40
"""Characters that stand for all inputs."""

_OPTIONS = (
    click.option(
        "--adaptive",
        multiple=True,
        type=NameList("kind of ladder", lambda: KINDS),
        help=f"Stop early where sure: exits, resolution or auto; a list. Harmful at most --max-drop. [{DEFAULT_DROP_PP:g}]",
    ),
    click.option("--route-to", help="A larger network that answers where this one is not sure, named as for --model."),
    click.option("--route-weights", type=click.Path(path_type=Path), help="Weights of the larger network."),
    click.option("--exits-after", multiple=True, help="Modules, of a text network layers, behind which exits sit; a list."),
    click.option("--resolutions", type=Sides(), help="Sides of the image to climb, such as 128,224; trained for all of them."),
    click.option("--joint", is_flag=True, help="Train exits together with the network. [text networks: always]"),
)


def ladder_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a ladder, as a dict would hold them: pass them on to `adaptive`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def adaptive(told: dict[str, Any], *, student: "ModelSource") -> Adaptive | None:
    """Parsed options -> what is wished for; None without a ladder.

    Raises:
        InputError: `ladder-option`, or weights that cannot be used.
        UnknownName: no such network to route to.
    """
    kinds, route_to = flat(told["adaptive"]), told["route_to"]
    after = tuple(name.strip() for names in told["exits_after"] for name in names.split(",") if name.strip())
    exits = "exits" in kinds or "auto" in kinds
    _needs("--exits-after", after, exits, "--adaptive exits")
    _needs("--joint", told["joint"], exits, "--adaptive exits")
    _needs("--resolutions", told["resolutions"], "resolution" in kinds or "auto" in kinds, "--adaptive resolution")
    _needs("--route-weights", told["route_weights"], route_to is not None, "--route-to NAME")
    if route_to is not None and kinds:
        raise InputError(
            "--adaptive and --route-to are both given",
            where="--route-to",
            fix="build them apart and compare what their reports say",
            code="ladder-option",
        )
    if not kinds and route_to is None:
        return None
    larger = None
    if route_to is not None:
        from edgekit import catalog

        checks.weights(told["route_weights"], text=student.reads_text, option="--route-weights")
        larger = Teacher(catalog.find_model(route_to), told["route_weights"])
    return Adaptive(kinds, after, told["resolutions"] or (), larger, told["joint"])


def full_resolution(asked_px: int | None, wish: Adaptive | None) -> int | None:
    """Side of the full network: the largest of a ladder's.

    Raises:
        InputError: `ladder-option`; two options say two sides.
    """
    if wish is None or not wish.resolutions_px:
        return asked_px
    largest = wish.resolutions_px[-1]
    if asked_px not in (None, largest):
        raise InputError(
            f"--resolution {asked_px} is not the largest of --resolutions {', '.join(map(str, wish.resolutions_px))}",
            where="--resolution",
            fix=f"leave --resolution out, or end --resolutions with {asked_px}",
            code="ladder-option",
        )
    return largest


def _needs(option: str, given: object, has: bool, fix: str) -> None:
    if given and not has:
        raise InputError(f"{option} without {fix}", where=option, fix=f"add {fix}", code="ladder-option")


def print_ladder(screen: Screen, found: "LadderFound | None") -> None:
    """What was weighed, then what was built."""
    if found is None:
        return
    choice = found.choice
    front = _front(choice.options)
    screen.table(
        ("plan", "kind", "CPU ms", "of full", "harmful", "at most, pp", "front", "why not"),
        [
            (
                f"{option.candidate.name}{' *' if option is choice.chosen else ''}",
                option.candidate.kind,
                f"{option.cost:.2f}",
                f"{option.cost / choice.full.cost:.2f}",
                f"{option.harmful} of {choice.n}",
                f"{option.bound_pp:.2f}",
                "yes" if option in front else "",
                option.why,
            )
            for option in choice.options
        ],
        right=("CPU ms", "of full", "harmful", "at most, pp"),
    )
    screen.line(
        f"CPU ms: {found.engine} on this machine, one thread; at most {choice.limit_pp:g} points harmful are promised with "
        f"{100 * choice.confidence:g} % confidence, against {choice.full.candidate.name}"
    )
    for floor, summary in found.report.items():
        screen.line(_summary(floor, summary, found))


def _front(options: "Sequence[Option]") -> "list[Option]":
    """Pareto front: nothing costs less and may harm less."""
    return [
        one
        for one in options
        if not any(
            other.cost <= one.cost and other.bound_pp <= one.bound_pp and (other.cost, other.bound_pp) != (one.cost, one.bound_pp)
            for other in options
        )
    ]


def _summary(floor: str, summary: "Summary", found: "LadderFound") -> str:
    low, high = summary.interval_pp
    shares = ", ".join(f"{100 * rung.share:.0f} % at {rung.rung}" for rung in summary.rungs)
    right = "top-1" if summary.labelled else "agreement"
    full, static = found.choice.full.cost, found.choice.static
    return (
        f"{floor}: {summary.cost:.2f} ms ({summary.cost / full:.2f} of {found.choice.full.candidate.name}, "
        f"{summary.cost / static.cost:.2f} of {static.candidate.name}), p99 {summary.cost_p99:.2f} ms; "
        f"{right} {100 * summary.top1:.1f} %, {summary.drop_pp:+.2f} points lost ({low:+.2f} to {high:+.2f}, "
        f"95 %, n {summary.n}); {shares}"
    )


def draw(screen: Screen, document: dict[str, Any], drawn: "Drawn | None") -> None:
    """The rungs of a bundle, with the share of inputs that stop at each."""
    rungs = document["rungs"]
    if len(rungs) == 1:
        return
    shares = {} if drawn is None else {rung.rung: rung for rung in drawn.rungs}
    width = max(len(rung["name"]) for rung in rungs)
    for i, rung in enumerate(rungs):
        known = shares.get(rung["name"])
        screen.line(f"{rung['name']:<{width}}  {_bar(known.share if known else None)}  {_enough(rung, last=i == len(rungs) - 1)}")
        if known is not None and known.cost_ms is not None:
            right = "" if known.top1 is None else f", {100 * known.top1:.1f} % of its answers right"
            screen.line(f"{'':<{width}}  {'+' if i else ''}{known.cost_ms:.2f} ms{right}")
    if drawn is None:
        screen.line("how often each rung answers: in the report beside the bundle, which is not here")
        return
    interval = "" if drawn.interval_pp is None else f" ({drawn.interval_pp[0]:+.2f} to {drawn.interval_pp[1]:+.2f})"
    screen.line(
        f"expected {drawn.cost_ms:.2f} ms, p50 {drawn.cost_p50_ms:.2f} ms, p99 {drawn.cost_p99_ms:.2f} ms; always the last rung "
        f"{drawn.full_ms:.2f} ms; best plain network {drawn.baseline} {drawn.baseline_ms:.2f} ms"
    )
    screen.line(
        f"measured when it was built: CPU ms of {drawn.engine}, one thread, {drawn.device}; {drawn.n} examples to report on, "
        f"{drawn.drop_pp:+.2f} points lost{interval}"
    )


def _bar(share: float | None) -> str:
    if share is None:
        return ""
    filled = round(share * BAR)
    return f"{'#' * filled}{'.' * (BAR - filled)} {100 * share:5.1f} %"


def _enough(rung: dict[str, Any], *, last: bool) -> str:
    begins = "goes on with features" if rung["continues"] else "starts from the input"
    if last:
        return f"{begins}; answers in any case"
    margins = rung.get("margins")
    floors = "" if margins is None else f" (accurate {margins['accurate']:g}, fast {margins['fast']:g})"
    return f"{begins}; enough from {rung['min_margin']:g}{floors}"

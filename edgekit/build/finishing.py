"""The end of every build: the bundle goes to the user, reports beside it, and a promise that is lost is an error."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgekit.build.chains import Bundled
from edgekit.build.delivery import deliver, rows_of
from edgekit.build.findings import not_kept, write_findings
from edgekit.build.goal import check_host_goal
from edgekit.build.guard import Verdict, check_enough
from edgekit.build.outcome import GradedNetwork
from edgekit.build.request import BuildRequest, BuildResult
from edgekit.build.sensitivity_rows import Sensitivity
from edgekit.build.walker import Walker
from edgekit.spec.errors import InputError

if TYPE_CHECKING:
    from edgekit.build.ladder.found import LadderFound

__all__ = ["check_guardable", "finish"]


def check_guardable(request: BuildRequest, *, tune: int, place: Path) -> None:
    """Refuse a promise that cannot be made, before anything slow.

    Args:
        request: that asks for it, or does not.
        tune: examples to decide on.
        place: of the data, for people.

    Raises:
        InputError: `max-drop-precision` or `data-few`.
    """
    most = request.compression.max_drop_pp
    if most is None:
        return
    if "int8" not in request.precisions:
        raise InputError(
            "there is no INT8 payload to guard", where="--max-drop", fix="add int8 to --precision", code="max-drop-precision"
        )
    check_enough(tune, most, place=place)


def finish(
    request: BuildRequest,
    made: Bundled,
    report: Path,
    *,
    walker: Walker,
    begun: float,
    notes: Sequence[str],
    networks: tuple[GradedNetwork, ...],
    verdict: Verdict | None,
    sensitivities: tuple[Sensitivity, ...],
    with_findings: bool,
    ladder: "LadderFound | None" = None,
) -> BuildResult:
    """Deliver the bundle and write its reports.

    Args:
        request: of the build.
        made: the bundle in the store.
        report: of its judge.
        walker: that ran the stages.
        begun: monotonic time at which the build began.
        notes: for the user, before those on what ran where.
        networks: float networks that were graded.
        verdict: the guard's; None without one.
        sensitivities: of every layer, if they were measured.
        with_findings: whether there are data that reports could tell of.
        ladder: what was chosen, if one was wished for.

    Raises:
        GoalError: `latency`, with nothing delivered; `max-drop`, with the bundle delivered all the same.
        InputError: it cannot be delivered.
    """
    rows, more = rows_of(made.bundle.path, report)
    check_host_goal(request, rows)
    digest = deliver(made.bundle.path, request.out, as_zip=request.zip)
    result = BuildResult(
        bundle=request.out,
        digest=digest,
        model=request.model.name,
        target=request.target.name,
        seconds=time.monotonic() - begun,
        stages=tuple(walker.runs.values()),
        payloads=rows,
        notes=(*notes, *more),
        networks=networks,
        guarded=None if verdict is None else verdict.guarded,
        sensitivities=sensitivities,
        ladder=ladder,
    )
    if with_findings:
        write_findings(result)
    if result.guarded is not None and not result.guarded.chosen.kept:
        raise not_kept(result)
    return result

"""Training alone: a float network and nothing that converts it, so that a machine with a GPU needs no converter."""

import json
import shutil
import time
from pathlib import Path

from edgekit.build.chains import Chains, chains_of
from edgekit.build.facts import FILE, TRAINED_ON
from edgekit.build.grading import grade
from edgekit.build.outcome import GradedNetwork
from edgekit.build.pipeline import Observe
from edgekit.build.preparing import Prepared, Walk
from edgekit.build.request import BuildRequest, FitResult
from edgekit.build.store import Store, default_root
from edgekit.build.walker import Walker
from edgekit.spec.errors import InputError, SetupError
from edgekit.spec.output import new_directory

__all__ = ["deliver_checkpoint", "fit", "grade_all"]


def fit(request: BuildRequest, *, observe: Observe = lambda event: None) -> FitResult:
    """Only the float network: fitted, taught, made smaller as wished -> a checkpoint that `--weights` takes.

    Raises:
        InputError: model, weights or data are wrong, or there is nothing to train.
        SetupError: something is not installed, or cannot be written.
    """
    if request.model.reads_text:
        from edgekit.build.text.api import fit_text

        return fit_text(request, observe=observe)
    begun = time.monotonic()
    chains = chains_of(request)
    if chains.splits is None or not chains.splits.trains:
        raise InputError(
            "nothing would be trained: the network has the classes of the data already",
            where="--data",
            fix="add --epochs N, --teacher NAME or --prune RATIO",
            code="nothing-to-fit",
        )
    walker = Walker(Store(request.store or default_root()), observe)
    walk = walker.telling(observe)
    prepared = chains.prepare(walk)
    graded = grade_all(chains, prepared, walk)
    deliver_checkpoint(prepared.checkpoint.path, request.out, splits=chains.splits.folder.digest)
    return FitResult(request.out, request.model.name, time.monotonic() - begun, tuple(walker.runs.values()), graded, chains.notes)


def grade_all(chains: Chains, prepared: Prepared, walk: Walk) -> tuple[GradedNetwork, ...]:
    """Every float network that was trained, on photos to report on; none if nothing was."""
    learners = chains.learners
    if learners.splits is None or not learners.splits.trains:
        return ()
    teacher = None if learners.teacher is None else learners.teacher.network
    return grade(prepared, learners.student.network, teacher, splits=learners.splits, walk=walk)


def deliver_checkpoint(checkpoint: Path, out: Path, *, splits: str) -> None:
    """Copy a checkpoint out of the store, whole or not at all."""
    try:
        with new_directory(out, replaceable=lambda path: (path / FILE).is_file()) as temporary:
            for file in sorted(path for path in checkpoint.rglob("*") if path.is_file()):
                place = temporary / file.relative_to(checkpoint)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, place)
            (temporary / TRAINED_ON).write_text(json.dumps({"splits": splits}) + "\n", encoding="utf-8")
    except SetupError as error:  # the place was the user's choice
        raise InputError(error.what, where=error.where, fix=error.fix, code=error.code) from error

"""What a build of a ladder says, written by hand, and a bundle of two rungs with the report of its build beside it."""

import dataclasses

import numpy as np
import tiny_bundle

from edgekit.build.findings import write_findings
from edgekit.build.ladder.choose import Measured, choose
from edgekit.build.ladder.found import LadderFound
from edgekit.build.ladder.margins import Trials
from edgekit.build.ladder.pool import Candidate
from edgekit.build.ladder.summary import summarise
from edgekit.build.request import BuildResult
from edgekit.spec import manifest as m
from edgekit.spec.bundle import open_bundle, write_bundle

N = 2000
RUNGS = ("low", "high")
COSTS = {"low": 4.0, "high": 10.0}


def logits(seed, *, wrong):
    """Answers of a rung to labels 0: `wrong` of them are wrong, and those by small margins."""
    random = np.random.default_rng(seed)
    found = np.zeros((N, 4), np.int8)
    found[:, 0] = random.integers(20, 100, N)
    lost = random.random(N) < wrong
    found[lost, 1] = found[lost, 0] + 3
    return found


def found():
    """A ladder that pays."""
    answers = {"low": logits(0, wrong=0.2), "high": logits(1, wrong=0.02)}
    labels = np.zeros(N, int)
    measured = Measured(answers, labels, answers, labels, COSTS)
    candidates = [Candidate("resolution", RUNGS), Candidate("static", ("low",)), Candidate("static", ("high",))]
    choice = choose(candidates, measured, full="high", limit_pp=1.0)
    trials = Trials.of([answers[rung] for rung in RUNGS], labels)
    report = {floor: summarise(trials, RUNGS, margins, tuple(COSTS.values())) for floor, margins in choice.margins.items()}
    return LadderFound(choice, "onnx", {"onnx-fp32": COSTS}, report, 0.998)


def write(out, *, with_report=True):
    """The tiny network twice, as `low` and as `high`; -> the bundle."""
    made = tiny_bundle.write(out.with_name(f"{out.name}-plain"))
    with open_bundle(made) as reader:
        contents = {name: reader.read(name) for name in reader.files}
        plain = reader.manifest
    side = plain.rungs[0].resolution_px
    ladder = found()
    floors = {floor: margins[0] for floor, margins in ladder.choice.margins.items()}
    margins = m.Margins(floors["accurate"], floors["fast"])
    rungs = (m.Rung("low", side, 2 * side, min_margin=floors["balanced"], margins=margins), m.Rung("high", side, side))
    (payload,) = plain.payloads
    payload = dataclasses.replace(
        payload,
        entries=tuple(dataclasses.replace(payload.entries[0], rung=name) for name in RUNGS),
        goldens=tuple(dataclasses.replace(payload.goldens[0], rung=name) for name in RUNGS),
    )
    inputs = tuple(dataclasses.replace(plain.golden_inputs[0], rung=name) for name in RUNGS)
    digest = write_bundle(
        dataclasses.replace(plain, rungs=rungs, payloads=(payload,), golden_inputs=inputs, files=()), contents, out
    )
    if with_report:
        write_findings(BuildResult(out, digest, "tiny", "host", 1.0, (), (), ladder=ladder))
    return out

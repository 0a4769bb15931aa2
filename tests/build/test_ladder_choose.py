"""Which ladder is taken: only one that beats the best plain network, at a promise that holds for all that were tried."""

import numpy as np
import pytest

from edgekit.build.ladder.bounds import harm_bound
from edgekit.build.ladder.choose import Measured, choose
from edgekit.build.ladder.pool import NEVER, Candidate, Piece, Pool
from edgekit.build.stages.lower_rungs import RungPart

N = 3000


def rung(seed, *, wrong, sure=True, scale=1):
    """(n, 3) int8 answers to labels 0: wrong ones come with small margins where the rung knows what it does not know."""
    random = np.random.default_rng(seed)
    logits = np.zeros((N, 3), np.int8)
    logits[:, 0] = random.integers(10, 100, N)
    lost = random.random(N) < wrong
    logits[lost, 1] = logits[lost, 0] + (
        random.integers(1, 6, int(lost.sum())) if sure else random.integers(1, 28, int(lost.sum()))
    )
    return logits * scale


def measured(costs, **rungs):
    labels = np.zeros(N, int)
    return Measured(rungs, labels, rungs, labels, costs)


def static(name):
    return Candidate("static", (name,))


def test_the_cheapest_ladder_that_keeps_the_promise():
    found = choose(
        [
            Candidate("resolution", ("a", "full")),
            Candidate("resolution", ("b", "full")),
            static("a"),
            static("b"),
            static("full"),
        ],
        measured({"a": 3.0, "b": 5.0, "full": 10.0}, a=rung(0, wrong=0.2), b=rung(1, wrong=0.1), full=rung(2, wrong=0.02)),
        full="full",
        limit_pp=1.0,
    )
    assert found.chosen.candidate.rungs == ("a", "full")
    assert found.static.candidate.rungs == ("full",)
    assert found.full.cost == 10.0
    assert found.chosen.cost < 0.9 * found.static.cost
    assert [option.cost for option in found.options] == sorted(option.cost for option in found.options)
    assert [option.why == "" for option in found.options].count(True) == 1
    told = {option.candidate.name: option.why for option in found.options}
    assert "times the cost" in told["b -> full"]
    assert "may harm" in told["a"]
    assert set(found.margins) == {"accurate", "balanced", "fast"}


def test_a_plain_network_that_is_as_good_wins():
    found = choose(
        [
            Candidate("resolution", ("low", "full")),
            Candidate("resolution", ("middle", "full")),
            *map(static, ("low", "middle", "full")),
        ],
        measured(
            {"low": 4.0, "middle": 5.0, "full": 10.0},
            low=rung(0, wrong=0.2),
            middle=np.clip(rung(2, wrong=0.0), 0, 127),
            full=rung(2, wrong=0.0),
        ),
        full="full",
        limit_pp=1.0,
    )
    assert found.chosen is found.static
    assert found.chosen.candidate.rungs == ("middle",)
    assert found.margins == {}
    assert {option.why for option in found.options if len(option.candidate.rungs) > 1} == {"saves nothing over middle"}


def test_each_ladder_is_held_to_its_part_of_the_error():
    costs = {"a": 3.0, "b": 5.0, "full": 10.0}
    rungs = measured(costs, a=rung(0, wrong=0.2), b=rung(1, wrong=0.1), full=rung(2, wrong=0.02))
    one = choose([Candidate("resolution", ("a", "full")), static("full")], rungs, full="full", limit_pp=1.0)
    ladders = [Candidate("resolution", ("a", "full")), Candidate("resolution", ("b", "full"))]
    two = choose([*ladders, static("full")], rungs, full="full", limit_pp=1.0)
    first, second = (c.chosen.floors["balanced"] for c in (one, two))
    assert (first.confidence, second.confidence) == (0.95, 0.975)
    assert two.confidence == 0.95
    assert second.bound_pp == pytest.approx(100 * harm_bound(second.harmful, N, 0.975))
    assert second.margins >= first.margins


def test_without_labels_the_full_network_is_right():
    low, full = rung(0, wrong=0.2), rung(2, wrong=0.3)
    found = choose(
        [Candidate("resolution", ("low", "full")), static("low"), static("full")],
        Measured({"low": low, "full": full}, None, {"low": low, "full": full}, None, {"low": 4.0, "full": 10.0}),
        full="full",
        limit_pp=1.0,
    )
    assert not found.labelled
    told = {option.candidate.name: option for option in found.options}
    assert told["low"].harmful == int((low.argmax(1) != full.argmax(1)).sum())


def test_little_gain_is_no_gain():
    """A ladder whose first rung is hardly cheaper is not worth two networks."""
    found = choose(
        [Candidate("resolution", ("low", "full")), static("low"), static("full")],
        measured({"low": 9.9, "full": 10.0}, low=rung(0, wrong=0.2), full=rung(2, wrong=0.02)),
        full="full",
        limit_pp=1.0,
    )
    assert found.chosen.candidate.rungs == ("full",)


def pool():
    part = RungPart(None, ("px128",)), RungPart(None, ("exit1", "last")), RungPart(None, ("px224",))
    pieces = (Piece(part[0], 128, 146, "small"), Piece(part[1], 224, 256, "full"), Piece(part[2], 224, 256, "full"))
    return Pool(pieces, (static("px224"),))


def test_no_rung_of_a_pool_stops_but_the_last():
    rungs = pool().rungs
    assert [r.min_margin for r in rungs] == [NEVER, NEVER, NEVER, 0]
    assert [r.continues for r in rungs] == [False, False, True, False]
    assert [r.resolution_px for r in rungs] == [128, 224, 224, 224]


def test_needed_pieces():
    assert [piece.part.rungs for piece in pool().needed(("px128", "px224"))] == [("px128",), ("px224",)]
    assert [piece.part.rungs for piece in pool().needed(("exit1", "last"))] == [("exit1", "last")]
    with pytest.raises(ValueError, match="not all of the pieces"):
        pool().needed(("last",))
    assert [pool().program_of(rung) for rung in ("px128", "exit1", "last", "px224")] == ["small", "full", "full", "full"]

"""Which exits of a text network are kept: costs of ladders that leave some out, and margins between those that training left."""

import dataclasses

import numpy as np
import pytest

from edgekit.build.ladder.choose import Measured, choose
from edgekit.build.ladder.paths import levels_of
from edgekit.build.ladder.wish import Adaptive
from edgekit.build.text.ladder import LadderTexts

COSTS = {"exit2": 4.0, "exit4": 3.0, "last": 2.0, "main": 8.5}


def ladder(*layers):
    return LadderTexts(chains=None, splits=None, wish=Adaptive(("exits",)), layers=layers)


def logits(labels, *, right, margin, seed):
    """(n, 3) of which a share is right, sure where it is right and unsure where it is wrong."""
    rng = np.random.default_rng(seed)
    hits = rng.random(len(labels)) < right
    best = np.where(hits, labels, (labels + 1) % 3)
    found = rng.random((len(labels), 3)).astype(np.float32)
    found[np.arange(len(labels)), best] += np.where(hits, margin, 1.05).astype(np.float32)
    return found


def measured(n=2000, **costs):
    ours = COSTS | costs
    labels = np.random.default_rng(0).integers(0, 3, n)
    rungs = {
        "exit2": logits(labels, right=0.3, margin=4, seed=1),
        "exit4": logits(labels, right=0.9, margin=4, seed=2),
        "last": logits(labels, right=1.0, margin=6, seed=3),
    }
    rungs["main"] = rungs["last"]
    tried = ladder(2, 4)
    merged = {c.rungs: tried._merged(c.rungs, ours) for c in tried.candidates if len(c.rungs) > 1}
    return Measured(rungs, labels, rungs, labels, ours, merged)


def test_candidates_are_all_exits_each_alone_and_the_plain_network():
    names = [candidate.name for candidate in ladder(2, 4).candidates]
    assert names == ["exit2 -> exit4 -> last", "exit2 -> last", "exit4 -> last", "main"]
    assert [candidate.name for candidate in ladder(1).candidates] == ["exit1 -> last", "main"]


def test_layers_of_an_exit_that_is_left_out_are_paid_all_the_same():
    found = measured()
    assert found.costs_of(("exit2", "exit4", "last")) == (4.0, 3.0, 2.0)
    assert found.costs_of(("exit2", "last")) == (4.0, 5.0)
    assert found.costs_of(("exit4", "last")) == (7.0, 2.0)
    assert found.costs_of(("main",)) == (8.5,)


def test_an_exit_that_saves_nothing_is_left_out():
    """The first one's head costs much and answers little."""
    found = measured(exit2=4.0, exit4=1.0, last=8.0, main=12.0)
    head = dataclasses.replace(found, merged={**found.merged, ("exit4", "last"): (3.0, 8.0)})
    choice = choose(ladder(2, 4).candidates, head, full="main", limit_pp=1.0)
    assert choice.chosen.candidate.rungs == ("exit4", "last")
    assert choice.chosen.harmful <= 0.01 * choice.n


def test_an_exit_that_nobody_stops_at_is_left_out():
    """With it and without it the ladder costs the same."""
    found = measured(exit2=1.0, exit4=3.0, last=4.5, main=8.5)
    unsure = np.zeros_like(found.logits["exit4"])
    rungs = {**found.logits, "exit2": found.logits["last"], "exit4": unsure}
    same = dataclasses.replace(found, logits=rungs, design=rungs)
    choice = choose(ladder(2, 4).candidates, same, full="main", limit_pp=1.0)
    costs = {option.candidate.rungs: option.cost for option in choice.options}
    assert costs["exit2", "exit4", "last"] == pytest.approx(costs["exit2", "last"])
    assert choice.chosen.candidate.rungs == ("exit2", "last")


def test_no_ladder_where_the_plain_network_costs_less():
    choice = choose(ladder(2, 4).candidates, measured(main=4.0), full="main", limit_pp=1.0)
    assert choice.chosen is choice.static
    assert choice.margins == {}


def test_levels_reach_between_the_margins_of_texts_that_were_learned():
    """All design margins lie above 5; a text that nobody learned from may have 2."""
    margins = np.linspace(5, 10, 500)
    plain, even = (levels_of(margins, never=160.0, even=even) for even in (False, True))
    for levels in (plain, even):
        assert levels[0] == 160.0
        assert levels[-1] == 0.0
        assert list(levels) == sorted(set(levels), reverse=True)
    assert not [level for level in plain if 0 < level < 5]
    assert len([level for level in even if 0 < level < 5]) > 20
    assert set(plain) <= set(even)
    assert levels_of(np.zeros(5), never=16.0, even=True) == pytest.approx((16.0, 0.0))

"""The stage that adds early exits to a checkpoint: what it writes, what stays, and that an interrupt changes nothing."""

import dataclasses
import json
import os

import pytest
import torch
from fit_chain import checkpoint_in, network_in
from test_ladder_training import JOINT, TRAINING, same
from test_training_resume import always_due  # noqa: F401 - a fixture
from training_toys import FACTS, draw_photos, equal, plan, tiny

from edgekit.build import pipeline
from edgekit.build.artifact import Artifact, pin
from edgekit.build.checkpoint import WEIGHTS, read_checkpoint, read_history
from edgekit.build.facts import read_facts
from edgekit.build.ladder.exit_checkpoint import exits_in, read_exits, read_staged
from edgekit.build.splits import choose_splits
from edgekit.build.stages.exits import TrainExits
from edgekit.build.stages.load import Load
from edgekit.build.store import Store
from edgekit.build.training.trainer import train
from edgekit.spec.digest import sha256_tree

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def fitted(lesson):
    """A network that tells the colours apart."""
    module = tiny()
    train(module, lesson, plan(epochs=8))
    return module


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    return choose_splits(draw_photos(tmp_path_factory.mktemp("data"), each=24), seed=0, trains=True)[0]


@pytest.fixture
def source(tmp_path, fitted):
    """A checkpoint of the network that was fitted."""
    network = network_in(tmp_path)
    made = checkpoint_in(tmp_path / "start", network)
    torch.save(fitted.state_dict(), made.path / WEIGHTS)
    return network, Artifact("checkpoint", sha256_tree(made.path), made.path)


def run(tmp_path, stage, source, store="store", observe=lambda event: None):
    return pipeline.run((stage,), source, store=Store(tmp_path / store), observe=observe)[0]


def test_the_stage_writes_exits_beside_weights_that_stay(tmp_path, splits, source, fitted):
    network, start = source
    stage = TrainExits(network, splits, TRAINING, ("5", "2"))
    made = run(tmp_path, stage, start)
    assert sorted(set(os.listdir(made.path)) - set(os.listdir(start.path))) == ["exits.json", "exits.pt", "history.json"]
    assert exits_in(made.path) == ("2", "5")
    assert exits_in(start.path) == ()
    assert read_exits(start.path) == {}
    assert equal(read_checkpoint(made.path, network), fitted)
    assert read_facts(made.path) == read_facts(start.path)
    told = read_history(made.path)["exits"]
    assert told["after"] == ["2", "5"]
    assert min(told["tune_top1_each"]) > 0.8
    assert told["agreement_with_last"][-1] == 1.0
    outputs = read_staged(made.path, network)(torch.zeros(1, 3, 32, 32))
    assert [tuple(o.shape) for o in outputs] == [(1, 3), (1, 3), (1, 3), (1, 8, 16, 16), (1, 16, 8, 8)]
    assert run(tmp_path, stage, start, "other").digest == made.digest


def test_the_stage_trains_jointly_and_says_whose_weights_these_are(tmp_path, splits, source, fitted):
    network, start = source
    made = run(tmp_path, TrainExits(network, splits, TRAINING, ("2",), JOINT), start)
    assert not equal(read_checkpoint(made.path, network), fitted)
    facts = read_facts(made.path)
    assert facts.weights == f"exits: {len(splits.open().fit)} photos"
    assert facts.names == ("blue", "green", "red")
    assert read_history(made.path)["exits"]["joint"] is True


def test_exits_that_were_trained_are_where_joint_training_begins(tmp_path, splits, source):
    network, start = source
    alone = run(tmp_path, TrainExits(network, splits, TRAINING, ("2", "5")), start)
    slow = plan(epochs=1, learning_rate=1e-9)
    on = run(tmp_path, TrainExits(network, splits, slow, ("5", "2"), JOINT), alone)
    elsewhere = run(tmp_path, TrainExits(network, splits, slow, ("2",), JOINT), alone)
    before, after, fresh = (read_exits(each.path)["2"].linear.weight for each in (alone, on, elsewhere))
    torch.testing.assert_close(after, before, rtol=0, atol=1e-6)
    assert (fresh - before).abs().max() > 1e-2
    assert sorted(read_history(on.path)) == ["exits", "exits-2"]


def test_exits_go_through_a_folder_of_weights(tmp_path, splits, source):
    network, start = source
    made = run(tmp_path, TrainExits(network, splits, TRAINING, ("2",)), start)
    given = dataclasses.replace(network, weights=pin(made.path))
    nothing = Artifact("source", "0" * 64, tmp_path)
    loaded = run(tmp_path, Load(given, FACTS), nothing)
    assert same(read_exits(loaded.path), read_exits(made.path))
    without = run(tmp_path, Load(dataclasses.replace(network, weights=pin(start.path)), FACTS), nothing)
    assert sorted(os.listdir(without.path)) == ["model.json", "weights.pt"]


@pytest.mark.usefixtures("always_due")
def test_an_interrupted_stage_goes_on(tmp_path, splits, source):
    network, start = source
    stage = TrainExits(network, splits, plan(epochs=3, augment=True), ("2", "5"), JOINT)
    expected = run(tmp_path, stage, start, "whole")
    told = []

    def observe(event):
        told.append(event)
        if len(told) == 9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, stage, start, observe=observe)
    assert run(tmp_path, stage, start).digest == expected.digest


def test_the_file_of_exits_says_what_it_holds(tmp_path, splits, source):
    network, start = source
    made = run(tmp_path, TrainExits(network, splits, plan(epochs=1), ("2",)), start)
    told = json.loads((made.path / "exits.json").read_text())
    assert told == {"exits": [{"after": "2", "channels": 8, "classes": 3, "hidden": 256}]}

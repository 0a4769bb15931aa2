"""Batch-norm statistics of a resolution: what they are, when they are taken, and the stage that decides."""

import copy
import dataclasses
import json

import pytest
import torch
from fit_chain import checkpoint_in, network_in
from test_ladder_resolutions import MIXED, top1
from torch import nn
from training_toys import FACTS, draw_photos, equal, plan, tiny

from edgekit.build import pipeline
from edgekit.build.artifact import Artifact
from edgekit.build.checkpoint import WEIGHTS, read_checkpoint, read_history
from edgekit.build.data import Parts
from edgekit.build.facts import read_facts
from edgekit.build.ladder.resolutions import choose_statistics, recalibrated
from edgekit.build.splits import choose_splits
from edgekit.build.stages.exits import TrainExits
from edgekit.build.stages.fit import Fit
from edgekit.build.stages.recalibrate import Recalibrate, shares_weights
from edgekit.build.store import Store
from edgekit.build.tensors import pictures, to_tensor
from edgekit.build.training.trainer import train
from edgekit.spec.digest import sha256_tree
from edgekit.spec.errors import InputError

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def fitted(lesson):
    module = tiny()
    train(module, lesson, plan(epochs=8))
    return module


def test_statistics_are_those_of_the_photos_and_weights_stay(lesson, fitted):
    before = copy.deepcopy(fitted)
    module = recalibrated(fitted, lesson.fit, FACTS, resolution_px=24)
    assert equal(fitted, before)
    assert not module.training
    assert module[1].momentum == fitted[1].momentum
    x = to_tensor(pictures(lesson.fit, FACTS.at(24)), FACTS)
    seen = fitted[0](x)
    torch.testing.assert_close(module[1].running_mean, seen.mean((0, 2, 3)))
    torch.testing.assert_close(module[1].running_var, seen.var((0, 2, 3)))
    assert not torch.allclose(module[1].running_var, fitted[1].running_var)
    for name, parameter in module.named_parameters():
        assert torch.equal(parameter, fitted.get_parameter(name))


def test_statistics_of_many_batches_are_their_mean(lesson, fitted):
    """Two batches, each of all classes: a folder after the other would give each batch the variance of one class."""
    more = dataclasses.replace(lesson.fit, samples=lesson.fit.samples + lesson.tune.samples[:12])
    seen = []
    module = recalibrated(fitted, more, FACTS, resolution_px=32, seen=seen.append)
    assert seen == [36, 72]
    x = fitted[0](to_tensor(pictures(more, FACTS), FACTS))
    torch.testing.assert_close(module[1].running_mean, x.mean((0, 2, 3)), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(module[1].running_var, x.var((0, 2, 3)), rtol=0.05, atol=1e-4)


def test_equal_photos_give_equal_statistics(lesson, fitted):
    torch.manual_seed(1)
    one = recalibrated(fitted, lesson.fit, FACTS, resolution_px=24, most=30)
    torch.manual_seed(2)
    assert equal(one, recalibrated(fitted, lesson.fit, FACTS, resolution_px=24, most=30))


def test_a_network_without_batch_norms_comes_back_as_it_was(lesson):
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
    assert equal(recalibrated(module, lesson.fit, FACTS, resolution_px=16), module)


def spoilt(module):
    """Statistics of other photos: behind the second norm next to nothing is left."""
    module = copy.deepcopy(module)
    module[4].running_mean += 30 * module[4].running_var.sqrt()
    return module


def test_own_statistics_are_taken_only_where_they_are_significantly_better(lesson, fitted):
    parts = Parts(lesson.fit, lesson.tune, lesson.tune)
    _, told = choose_statistics(fitted, parts, FACTS, resolution_px=32)
    assert told.labelled
    assert told.photos == 18
    assert told.shared_top1 == 1.0
    assert not told.own
    own, told = choose_statistics(spoilt(fitted), parts, FACTS, resolution_px=32)
    assert told.own
    assert told.gain_pp == pytest.approx(100 * (told.own_top1 - told.shared_top1))
    assert told.gain_pp > 40
    assert told.interval_pp[0] > 0
    assert top1(own, lesson.tune) == told.own_top1 > 0.9


def test_without_labels_it_is_agreement_with_the_network_at_its_own_resolution(lesson, fitted):
    parts = Parts(lesson.fit.without_labels(), lesson.tune.without_labels(), lesson.tune)
    _, told = choose_statistics(fitted, parts, FACTS, resolution_px=32)
    assert not told.labelled
    assert told.shared_top1 == 1.0


# The stages.


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    return choose_splits(draw_photos(tmp_path_factory.mktemp("data"), each=24), seed=0, trains=True)[0]


def checkpoint_of(tmp_path, module):
    network = network_in(tmp_path)
    made = checkpoint_in(tmp_path / "start", network)
    torch.save(module.state_dict(), made.path / WEIGHTS)
    return network, Artifact("checkpoint", sha256_tree(made.path), made.path)


def run(tmp_path, stages, source):
    return pipeline.run(stages, source, store=Store(tmp_path / "store"))[0]


def test_the_stage_shares_weights_unless_own_statistics_pay(tmp_path, splits, fitted):
    network, source = checkpoint_of(tmp_path, fitted)
    made = run(tmp_path, (Recalibrate(network, splits, 24),), source)
    assert shares_weights(made.path, source.path)
    assert read_facts(made.path) == read_facts(source.path).at(24)
    told = read_history(made.path)["recalibrate"]
    assert told["statistics"] == "shared"
    assert told["resolution_px"] == 24
    forced = run(tmp_path, (Recalibrate(network, splits, 24, "own"),), source)
    assert not shares_weights(forced.path, source.path)
    assert read_history(forced.path)["recalibrate"]["statistics"] == "own"
    kept = run(tmp_path, (Recalibrate(network, splits, 24, "shared"),), source)
    assert shares_weights(kept.path, source.path)
    assert "own_top1" not in read_history(kept.path)["recalibrate"]


def test_the_stage_takes_own_statistics_where_they_pay(tmp_path, splits, fitted):
    network, source = checkpoint_of(tmp_path, spoilt(fitted))
    made = run(tmp_path, (Recalibrate(network, splits, 32),), source)
    told = read_history(made.path)["recalibrate"]
    assert told["statistics"] == "own"
    assert told["gain_pp"] > 0
    assert top1(read_checkpoint(made.path, network), splits.open().report) > 0.9


def test_a_fit_at_mixed_resolutions_goes_before_it_and_exits_go_along(tmp_path, splits):
    network = network_in(tmp_path)
    source = checkpoint_in(tmp_path / "start", network)
    fit = Fit(network, splits, MIXED)
    exits = TrainExits(network, splits, plan(epochs=2), ("2",))
    made = run(tmp_path, (fit, exits, Recalibrate(network, splits, 16)), source)
    assert sorted(read_history(made.path)) == ["exits", "fit", "recalibrate"]
    assert json.loads((made.path / "exits.json").read_text())["exits"][0]["after"] == "2"
    assert top1(read_checkpoint(made.path, network), splits.open().report, 16) > 0.9


def test_the_stage_refuses_what_cannot_be(tmp_path, splits, fitted):
    network, source = checkpoint_of(tmp_path, fitted)
    with pytest.raises(InputError, match="unknown choice of statistics 'mine'"):
        run(tmp_path, (Recalibrate(network, splits, 24, "mine"),), source)
    for statistics in ("auto", "shared"):
        with pytest.raises(InputError, match="does not take photos of 0 px"):
            run(tmp_path, (Recalibrate(network, splits, 0, statistics),), source)

"""Early exits: that they learn, what a frozen network keeps, what joint training changes, and what an interrupt does not."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from test_training_resume import always_due, interrupt_after  # noqa: F401 - a fixture
from torch import nn
from training_toys import equal, plan, tiny

from edgekit.build.ladder import exit_training
from edgekit.build.ladder.exit_training import AllAnswers, exit_answers, new_heads, train_exits
from edgekit.build.ladder.staged import Staged
from edgekit.build.training.objective import Objective
from edgekit.build.training.plan import EXIT_TRAINING, Exits, SoftLabels
from edgekit.build.training.trainer import train
from edgekit.spec.errors import GoalError, InputError, UnknownName

pytestmark = pytest.mark.usefixtures("one_thread")

FROZEN, JOINT = Exits(), Exits(joint=True)
PLACES = ("2", "5")
TRAINING = plan(epochs=6)


@pytest.fixture(scope="module")
def fitted(lesson):
    """A network that tells the colours apart."""
    module = tiny()
    train(module, lesson, plan(epochs=8))
    return module


def heads_of(module, places=PLACES, seed=3):
    return new_heads(module, places, classes=3, resolution_px=32, seed=seed, hidden=16)


def learned(module, lesson, training=TRAINING, exits=FROZEN, **options):
    heads = heads_of(module)
    told = train_exits(module, heads, lesson, training, exits=exits, **options)
    return heads, told


def tops(module, heads, lesson):
    """Share right of each exit and of the last answer."""
    answers = exit_answers(module, heads, lesson).argmax(2).numpy()
    return (answers == np.asarray(lesson.tune.labels)[:, None]).mean(0)


def same(one, two):
    return list(one) == list(two) and all(equal(one[place], two[place]) for place in one)


@pytest.mark.parametrize("augment", [False, True])
def test_exits_learn_and_the_frozen_network_stays_to_the_bit(lesson, fitted, augment):
    module = copy.deepcopy(fitted)
    images = torch.randn(5, 3, 32, 32)
    before = module(images)
    assert tops(module, heads_of(module), lesson)[:2].max() < 0.8
    heads, told = learned(module, lesson, plan(epochs=8, augment=augment))
    found = tops(module, heads, lesson)
    assert found[:2].min() > 0.9
    assert told.history[told.best_epoch - 1].tune_top1 == pytest.approx(found[:2].mean())
    assert equal(module, fitted)
    assert torch.equal(module(images), before)
    assert torch.equal(Staged(module, heads)(images)[2], before)
    assert not any(p.requires_grad for head in heads.values() for p in head.parameters())


def test_rows_that_are_kept_teach_what_photos_teach(lesson, fitted, monkeypatch):
    """Sums of other lengths are rounded in another order, so it is equal to some digits."""
    runs = []
    original = exit_training.train

    def noting(module, *rest, **more):
        runs.append(module)
        return original(module, *rest, **more)

    monkeypatch.setattr(exit_training, "train", noting)
    kept, told = learned(copy.deepcopy(fitted), lesson)
    monkeypatch.setattr(exit_training, "_KEPT_SHARE", 0.0)
    again, seen = learned(copy.deepcopy(fitted), lesson)
    assert [type(module).__name__ for module in runs] == ["_HeadsOnRows", "AllAnswers"]
    assert [e.tune_loss for e in told.history] == pytest.approx([e.tune_loss for e in seen.history], rel=1e-3)
    for place in PLACES:
        for a, b in zip(kept[place].parameters(), again[place].parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-3)


def test_joint_training_changes_the_network_and_lifts_exits_and_last_answer(lesson):
    module = tiny()
    before = copy.deepcopy(module)
    first = tops(module, heads_of(module), lesson)
    heads, _ = learned(module, lesson, plan(epochs=8), JOINT)
    found = tops(module, heads, lesson)
    assert not equal(module, before)
    assert not torch.equal(module[1].running_mean, before[1].running_mean)
    assert (found > first).all()
    assert found.min() > 0.9


def test_joint_training_lifts_an_exit_that_a_frozen_network_gives_little_to_read(lesson):
    """Behind a random network that nobody fitted, heads alone learn less than heads and network together."""
    training = plan(epochs=5)
    frozen, together = tiny(1, width=4), tiny(1, width=4)
    alone = tops(frozen, learned(frozen, lesson, training)[0], lesson)
    joint = tops(together, learned(together, lesson, training, JOINT)[0], lesson)
    assert joint[:2].mean() > alone[:2].mean() + 0.2


def test_heads_are_new_tensors_where_they_learn_with_their_network(lesson, fitted):
    module = copy.deepcopy(fitted)
    before = heads_of(module)
    heads, _ = learned(module, lesson, plan(epochs=3, learning_rate=1e-7, new_factor=1e5), JOINT)
    assert (module[3].weight - fitted[3].weight).abs().max() < 1e-5
    assert (heads["5"].linear.weight - before["5"].linear.weight).abs().max() > 1e-3


def gradient_of_last(joint, soft):
    module = tiny()
    module.requires_grad_(True)
    heads = heads_of(module) if joint else {}
    student = AllAnswers(Staged(module, heads), joint=True) if joint else module
    student.train(False)
    exits = Exits(soft=soft, joint=True) if joint else None
    objective = Objective(student, None, None, None, 0.1, "cpu", exits=exits)
    torch.manual_seed(0)
    x, labels = torch.randn(6, 3, 32, 32), torch.tensor([0, 1, 2, 0, 1, 2])
    objective.part(x, labels, count=6, labelled=6)[0].backward()
    return module[9].weight.grad, module[0].weight.grad


def test_the_last_answer_teaches_and_learns_nothing_from_its_exits():
    alone, taught = gradient_of_last(False, None), gradient_of_last(True, SoftLabels(share=1.0))
    torch.testing.assert_close(taught[0], alone[0])  # its own layer: no exit pulls at it
    assert not torch.allclose(taught[1], alone[1])  # the layers that they share


def test_weights_weigh_exits(lesson, fitted):
    plain, heavy = learned(copy.deepcopy(fitted), lesson)[0], learned(copy.deepcopy(fitted), lesson, exits=Exits((1.0, 1e-9)))[0]
    untouched = heads_of(fitted)
    change = [(heads["5"].linear.weight - untouched["5"].linear.weight).norm() for heads in (plain, heavy)]
    assert change[1] < 0.9 * change[0]
    assert Exits().weights_of(2) == (1.0, 1.0)
    assert Exits(joint=True).weights_of(2) == (0.5, 0.5)


def test_share_moves_exits_from_labels_to_the_last_answer(lesson, fitted):
    """A network that is wrong on purpose: exits believe the labels or it, as they are told."""
    module = copy.deepcopy(fitted)
    with torch.no_grad():
        module[9].weight.copy_(module[9].weight[[1, 2, 0]])
        module[9].bias.copy_(module[9].bias[[1, 2, 0]])
    believing = learned(module, lesson, plan(epochs=12), Exits(soft=SoftLabels(share=1.0)))[0]
    doubting = learned(module, lesson, plan(epochs=12), Exits(soft=SoftLabels(share=0.0)))[0]
    assert tops(module, believing, lesson)[:2].max() < 0.4
    assert tops(module, doubting, lesson)[:2].min() > 0.9


@pytest.mark.parametrize("augment", [False, True])
def test_without_labels_the_frozen_network_teaches(lesson, fitted, augment):
    blind = dataclasses.replace(lesson, fit=lesson.fit.without_labels(), tune=lesson.tune.without_labels())
    heads, told = learned(copy.deepcopy(fitted), blind, plan(epochs=12, augment=augment))
    assert told.history[-1].train_top1 > 0.8
    assert told.history[told.best_epoch - 1].tune_top1 > 0.9
    assert tops(fitted, heads, lesson)[:2].min() > 0.9


@pytest.mark.usefixtures("always_due")
@pytest.mark.parametrize(
    ("exits", "augment", "calls"),
    [(FROZEN, False, 5), (FROZEN, False, 8), (FROZEN, True, 8), (JOINT, True, 4), (JOINT, True, 13)],
)
def test_what_was_interrupted_gives_the_same_bits(lesson, fitted, tmp_path, exits, augment, calls):
    training = plan(epochs=3, augment=augment)
    whole = copy.deepcopy(fitted)
    expected, _ = learned(whole, lesson, training, exits)
    with pytest.raises(KeyboardInterrupt):
        learned(copy.deepcopy(fitted), lesson, training, exits, resume=tmp_path, progress=interrupt_after(calls))
    module, seen = copy.deepcopy(fitted), []
    heads, _ = learned(module, lesson, training, exits, resume=tmp_path, progress=lambda *news: seen.append(news))
    assert len(seen) < 18
    assert same(heads, expected)
    assert equal(module, whole)


def test_a_training_of_other_exits_is_not_taken_up(lesson, fitted, tmp_path):
    learned(copy.deepcopy(fitted), lesson, plan(epochs=1), resume=tmp_path)
    other = Exits(soft=SoftLabels(share=0.9))
    expected, _ = learned(copy.deepcopy(fitted), lesson, plan(epochs=1), other)
    heads, _ = learned(copy.deepcopy(fitted), lesson, plan(epochs=1), other, resume=tmp_path)
    assert same(heads, expected)


def test_a_rate_that_is_mad_stops_it(lesson, fitted):
    with pytest.raises(GoalError) as caught:
        learned(copy.deepcopy(fitted), lesson, plan(learning_rate=1e30, warmup=0.0))
    assert caught.value.code == "diverged"


def test_heads_come_in_the_order_that_modules_run_and_from_the_seed_alone(fitted):
    torch.manual_seed(7)
    one = heads_of(fitted, ("5", "2"))
    state = torch.get_rng_state()
    two = heads_of(fitted, ("2", "5"))
    assert list(one) == ["2", "5"]
    assert same(one, two)
    assert torch.equal(torch.get_rng_state(), state)
    assert not same(one, heads_of(fitted, seed=4))
    assert [head.expand.in_channels for head in one.values()] == [8, 16]


def test_places_that_cannot_be_are_refused(fitted):
    with pytest.raises(InputError, match="no place for an early exit") as caught:
        heads_of(fitted, ())
    assert caught.value.code == "exits-none"
    with pytest.raises(UnknownName, match="'22'") as caught:
        heads_of(fitted, ("22",))
    assert "did you mean 2" in caught.value.fix
    with pytest.raises(InputError) as caught:
        heads_of(fitted, ("7",))  # behind the pooling
    assert caught.value.code == "cut-features"


@pytest.mark.parametrize(
    ("exits", "code"),
    [
        (Exits(weights=(1.0,)), "exit-weights"),
        (Exits(weights=(1.0, 0.0)), "exit-weights"),
        (Exits(soft=SoftLabels(share=1.5)), "exit-share"),
        (Exits(soft=SoftLabels(temperature=0.0)), "exit-share"),
        (Exits(soft=SoftLabels(features=0.5)), "features"),
    ],
)
def test_plans_that_cannot_be_are_refused(lesson, fitted, exits, code):
    with pytest.raises(InputError) as caught:
        learned(copy.deepcopy(fitted), lesson, exits=exits)
    assert caught.value.code == code


def test_joint_training_needs_labels(lesson, fitted):
    blind = dataclasses.replace(lesson, fit=lesson.fit.without_labels())
    with pytest.raises(InputError, match="60 of 60 photos to learn from have no label") as caught:
        learned(copy.deepcopy(fitted), blind, exits=JOINT)
    assert caught.value.code == "labels-missing"


def test_the_usual_plan_keeps_rows():
    assert not EXIT_TRAINING.augment
    assert isinstance(AllAnswers(Staged(tiny(), {}), joint=False).train(True), nn.Module)

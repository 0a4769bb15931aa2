"""One network at several resolutions: steps of mixed sizes, statistics for each, and sizes that a network refuses."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from test_training_resume import always_due, interrupt_after  # noqa: F401 - a fixture
from torch import nn
from training_toys import FACTS, equal, plain, plan, tiny

from edgekit.build.ladder.resolution_check import check_resolutions, refusal
from edgekit.build.tensors import pictures
from edgekit.build.training.evaluate import evaluate
from edgekit.build.training.lesson import Lesson
from edgekit.build.training.order import Order
from edgekit.build.training.plan import SoftLabels
from edgekit.build.training.samples import Samples
from edgekit.build.training.trainer import train
from edgekit.spec.errors import InputError

pytestmark = pytest.mark.usefixtures("one_thread")

SIDES = (16, 24, 32)
MIXED = plan(epochs=9, augment=True, resolutions_px=SIDES)


def top1(module, data, side=32):
    return float((evaluate(module, data, FACTS.at(side)).argmax(1) == np.asarray(data.labels)).mean())


# Steps of mixed sizes.


def test_steps_take_resolutions_in_turn_and_depend_on_their_place_alone():
    order = Order(photos=40, unlabelled=0, batch_size=8, seed=0, resolutions_px=SIDES)
    batches = [keys for epoch in (1, 2, 3) for keys in order.batches(epoch)]
    sides = [{key[3] for key in keys} for keys in batches]
    assert all(len(each) == 1 for each in sides)
    flat = [side for each in sides for side in each]
    assert all(sorted(flat[i : i + 3]) == list(SIDES) for i in range(0, 15, 3))
    assert len({tuple(flat[i : i + 3]) for i in range(0, 15, 3)}) > 1
    assert order.batches(2, start=3) == order.batches(2)[3:]
    plain_order = Order(photos=40, unlabelled=0, batch_size=8, seed=0)
    assert [[key[:3] for key in keys] for keys in order.batches(1)] == plain_order.batches(1)


def test_unlabelled_photos_of_a_step_have_its_side():
    order = Order(photos=12, unlabelled=5, batch_size=8, seed=0, resolutions_px=SIDES)
    assert all(len({key[3] for key in keys}) == 1 and len(keys) == 8 for keys in order.batches(1))


def test_a_photo_of_another_side_looks_as_a_device_of_that_resolution_sees_it(lesson):
    facts = dataclasses.replace(FACTS, resize_px=40)
    assert (facts.at(16).resolution_px, facts.at(16).resize_px, facts.at(32)) == (16, 20, facts)
    samples = Samples((lesson.fit,), facts, seed=0, augment=False)
    expected = pictures(dataclasses.replace(lesson.fit, samples=lesson.fit.samples[:1]), facts.at(16))[0]
    assert np.array_equal(samples[0, 1, 0, 16][0], expected)
    augmented = Samples((lesson.fit,), facts, seed=0, augment=True)
    assert augmented[0, 1, 0, 24][0].shape == (24, 24, 3)
    assert augmented[0, 1, 0][0].shape == (32, 32, 3)


def test_a_network_learns_at_all_resolutions_and_is_tuned_at_all(lesson):
    module = tiny()
    told = train(module, lesson, MIXED)
    found = [top1(module, lesson.tune, side) for side in SIDES]
    assert min(found) > 0.9
    assert told.history[told.best_epoch - 1].tune_top1 == pytest.approx(np.mean(found))
    assert told.steps == 45


@pytest.mark.usefixtures("always_due")
@pytest.mark.parametrize("calls", [2, 8, 13])
def test_what_was_interrupted_gives_the_same_bits(lesson, tmp_path, calls):
    training = dataclasses.replace(MIXED, epochs=3)
    whole = tiny()
    train(whole, lesson, training)
    with pytest.raises(KeyboardInterrupt):
        train(tiny(), lesson, training, resume=tmp_path, progress=interrupt_after(calls))
    module = tiny()
    train(module, lesson, training, resume=tmp_path)
    assert equal(module, whole)
    single = tiny()
    train(single, lesson, dataclasses.replace(training, resolutions_px=()))
    assert not equal(single, whole)


def test_a_teacher_teaches_at_every_resolution(lesson):
    blind = Lesson(lesson.fit.without_labels(), lesson.tune.without_labels(), FACTS, tiny(5).eval(), SoftLabels(share=1.0))
    told = train(tiny(), blind, dataclasses.replace(MIXED, epochs=2))
    assert np.isfinite([epoch.tune_loss for epoch in told.history]).all()


def test_what_has_one_resolution_is_not_trained_at_several(lesson):
    aligned = dataclasses.replace(lesson, teacher=tiny(5).eval(), soft=SoftLabels(features=0.5))
    with pytest.raises(InputError, match="maps are aligned at one resolution") as caught:
        train(tiny(), aligned, MIXED)
    assert caught.value.code == "features"
    with pytest.raises(InputError, match="does not take photos of 16 px") as caught:
        train(plain(), lesson, MIXED)
    assert caught.value.code == "resolutions"
    with pytest.raises(InputError, match="the teacher of tiny does not take photos of 16 px"):
        train(tiny(), dataclasses.replace(lesson, teacher=plain().eval()), MIXED)


# Sizes that a network refuses.


class Patches(nn.Module):
    """Reads patches of 8 px."""

    def __init__(self):
        super().__init__()
        self.patches, self.head = nn.Conv2d(3, 4, 8, 8), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.patches(x).mean((2, 3)))


class Inner(nn.Module):
    """Throws a border of 8 px away: of a small photo nothing is left, and the mean of nothing is no number."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Conv2d(3, 4, 1), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.body(x)[:, :, 8:-8, 8:-8].mean((2, 3)))


class Skipping(nn.Module):
    """Goes down by four and up again beside the way around: sides that four does not divide no longer meet."""

    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 3, 3, 4, 1), nn.Upsample(scale_factor=4)

    def forward(self, x):
        return torch.cat((x, self.up(self.down(x))), 1).mean((2, 3))


def deep():
    """Four convolutions without padding, and a pooling of fixed size."""
    layers = [layer for _ in range(2) for layer in (nn.Conv2d(3, 3, 3, 2), nn.ReLU())]
    return nn.Sequential(*layers, nn.AvgPool2d(3), nn.AdaptiveAvgPool2d(1), nn.Flatten())


@pytest.mark.parametrize(
    ("module", "side", "why", "fix"),
    [
        (Patches(), 36, "patches reads patches of 8, and 4 of 36 places are left", "8 px; the nearest are 32 and 40 px"),
        (Patches(), 5, "Kernel size", "8 px; the nearest are 8 px"),
        (Inner(), 16, "no finite number", "17 px; the nearest are 17 px"),
        (Skipping(), 30, "must match", "4 px; the nearest are 28 and 32 px"),
        (deep(), 10, "too small", "15 px; the nearest are 15 px"),
        (deep(), 0, "at least 1 px", "15 px; the nearest are 15 px"),
        (plain(), 40, "cannot be multiplied", "31 px; the nearest are 34 px"),
    ],
)
def test_a_resolution_that_the_stride_forbids_is_refused_with_the_nearest(module, side, why, fix):
    with pytest.raises(InputError, match=why) as caught:
        check_resolutions(module, (32, side), name="net")
    assert caught.value.code == "resolutions"
    assert f"net does not take photos of {side} px" in caught.value.what
    assert caught.value.fix == f"the least that it takes is {fix}"


def test_what_a_network_takes_is_not_refused():
    check_resolutions(tiny(), (15, 16, 33, 224), name="net")
    check_resolutions(Patches(), (8, 32), name="net")
    assert refusal(deep(), 15) == ""


@pytest.mark.parametrize("sides", [(32, 32), (16, 24, 32, 40, 48)])
def test_a_ladder_has_up_to_four_different_resolutions(sides):
    with pytest.raises(InputError, match="at most 4, each once"):
        check_resolutions(tiny(), sides, name="net")


def test_a_network_that_takes_nothing_is_told_so():
    with pytest.raises(InputError) as caught:
        check_resolutions(nn.Linear(300, 3), (16,), name="net")
    assert caught.value.fix == "build at the network's own resolution"


def test_looking_leaves_no_trace():
    module = tiny()
    module.train(True)
    module[1].train(False)
    before = copy.deepcopy(module)
    check_resolutions(module, (16, 32), name="net")
    assert equal(module, before)
    assert [layer.training for layer in module] == [layer.training for layer in before]

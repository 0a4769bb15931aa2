"""The trainer on texts: what it learns, that an interrupt changes nothing, and what it refuses."""

import dataclasses
import os

import numpy as np
import pytest
import torch
from token_toys import FACTS, MAX_TOKENS, draw_tokens, plan, reader, token_lesson
from torch import nn
from training_toys import equal

from edgekit.build.data import Tokens
from edgekit.build.training import checkpoints, running, samples
from edgekit.build.training.evaluate import evaluate
from edgekit.build.training.order import Order
from edgekit.build.training.plan import SoftLabels
from edgekit.build.training.schedule import optimizer_of
from edgekit.build.training.token_samples import TokenSamples
from edgekit.build.training.trainer import train
from edgekit.spec.errors import GoalError, InputError

pytestmark = pytest.mark.usefixtures("one_thread")

STEPS = 15


@pytest.fixture(scope="module")
def texts():
    return token_lesson()


@pytest.fixture
def always_due(monkeypatch):
    """A checkpoint before every step."""
    monkeypatch.setattr(checkpoints.Keeper, "due", lambda self: self.path is not None)


def interrupt_after(calls):
    told = []

    def progress(fraction, note):
        told.append(fraction)
        if len(told) == calls:
            raise KeyboardInterrupt

    return progress


def top1(module, data):
    return float((evaluate(module, data, FACTS).argmax(1) == np.asarray(data.labels)).mean())


def test_it_learns_what_can_be_learned(texts):
    module = reader()
    assert top1(module, texts.tune) < 0.7
    trained = train(module, texts, plan(epochs=30))
    assert top1(module, texts.tune) > 0.9
    assert trained.history[trained.best_epoch - 1].tune_top1 == pytest.approx(top1(module, texts.tune))
    assert not any(p.requires_grad for p in module.parameters())


@pytest.mark.parametrize("calls", [1, 5, 6, 7, 13])
def test_what_was_interrupted_gives_the_same_bits(texts, tmp_path, always_due, calls):
    training = plan(micro_batch=5, new_factor=3.0, average_epochs=0.5)
    lesson = dataclasses.replace(texts, new=("head.weight", "head.bias"))
    expected = reader()
    told = train(expected, lesson, training)
    with pytest.raises(KeyboardInterrupt):
        train(reader(), lesson, training, resume=tmp_path, progress=interrupt_after(calls))
    assert os.listdir(tmp_path) == [checkpoints.FILE]
    module, seen = reader(), []
    again = train(module, lesson, training, resume=tmp_path, progress=lambda fraction, note: seen.append(fraction))
    assert equal(module, expected)
    assert len(seen) == STEPS + 3 - calls + (calls % 6 > 0)
    assert [e.tune_loss for e in told.history] == [e.tune_loss for e in again.history]


def test_a_teacher_and_unlabelled_texts_resume_too(texts, tmp_path, always_due):
    teacher = reader(5, width=12).eval()
    taught = dataclasses.replace(texts, teacher=teacher, soft=SoftLabels(), unlabelled=draw_tokens(each=5, seed=9))
    expected = reader()
    train(expected, taught, plan())
    with pytest.raises(KeyboardInterrupt):
        train(reader(), taught, plan(), resume=tmp_path, progress=interrupt_after(8))
    module = reader()
    train(module, taught, plan(), resume=tmp_path)
    assert equal(module, expected)


def test_a_student_learns_from_the_teacher_without_a_single_label(texts):
    teacher = reader(7, width=12)
    train(teacher, texts, plan(epochs=30))
    bare = dataclasses.replace(
        texts, fit=texts.fit.without_labels(), tune=texts.tune.without_labels(), teacher=teacher, soft=SoftLabels(share=1.0)
    )
    student = reader()
    train(student, bare, plan(epochs=30))
    assert top1(student, texts.tune) > 0.9


def test_processes_that_read_change_nothing(texts, monkeypatch):
    here, there = reader(), reader()
    monkeypatch.setattr(samples, "workers", lambda device: 0)
    train(here, texts, plan(epochs=1))
    monkeypatch.setattr(samples, "workers", lambda device: 2)
    train(there, texts, plan(epochs=1))
    assert equal(here, there)


def test_parts_of_a_step_add_up_to_the_whole_step(texts):
    """Seven texts in parts of 3, 2 and 2: a mean of means would weigh them wrongly."""
    found = []
    few = dataclasses.replace(texts, fit=texts.fit.chosen((0, 1, 2, 20, 21, 40, 41)))
    original = torch.nn.utils.clip_grad_norm_

    def noting(parameters, largest):
        parameters = list(parameters)
        found.append([p.grad.clone() for p in parameters])
        return original(parameters, largest)

    for micro_batch in (7, 3):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(running.torch.nn.utils, "clip_grad_norm_", noting)
            train(reader(dropout=0.0), few, plan(epochs=1, batch_size=7, micro_batch=micro_batch))
    for whole, cut in zip(*found, strict=True):
        assert (whole - cut).abs().max() < 1e-5 * whole.abs().max()


def test_batches_are_padded_to_a_multiple_of_eight_within_the_greatest_length():
    data = Tokens("t", ((1,) * 3, (1,) * 9, (1,) * 19), MAX_TOKENS)
    material = TokenSamples((data,))
    ids, labels = material.collate([material[0, 1, 0], material[0, 1, 1]])
    assert ids.dtype == torch.int64
    assert ids.shape == (2, 16)
    assert (ids[0] == -1).sum() == 13
    assert labels.tolist() == [-1, -1]
    assert material.collate([material[0, 1, 2]])[0].shape == (1, MAX_TOKENS)


def test_steps_hold_texts_of_like_length_each_once():
    lengths = tuple(int(n) for n in np.random.default_rng(0).integers(3, 60, 640))
    order = Order(640, 0, 32, 0, lengths)
    batches = order.batches(1)
    assert sorted(i for keys in batches for _, _, i in keys) == list(range(640))
    assert {len(keys) for keys in batches} == {32}
    spreads = [np.ptp([lengths[i] for _, _, i in keys]) for keys in batches]
    assert np.mean(spreads) < 12 < np.mean([np.ptp([lengths[i] for _, _, i in keys]) for keys in Order(640, 0, 32, 0).batches(1)])
    means = [np.mean([lengths[i] for _, _, i in keys]) for keys in batches]
    assert means != sorted(means)
    assert order.batches(1, start=7) == batches[7:]
    assert order.batches(2) != batches


def test_answers_come_in_the_order_of_the_texts(texts):
    module = reader().eval()
    found = evaluate(module, texts.tune, FACTS, batch_size=5)
    one_by_one = [module(torch.tensor([ids])).detach().numpy()[0] for ids in texts.tune.ids]
    assert np.abs(found - np.stack(one_by_one)).max() < 1e-5
    assert evaluate(module, texts.tune.chosen(()), FACTS).shape == (0, 3)


def test_a_new_head_learns_faster(texts):
    module = reader().requires_grad_(True)
    groups = optimizer_of((module,), plan(new_factor=10.0), new=("head.weight", "head.bias")).param_groups
    assert [(group["factor"], len(group["params"])) for group in groups] == [(1.0, 2), (1.0, 1), (10.0, 1), (10.0, 1)]
    assert groups[2]["params"][0] is module.head.weight
    moved = []
    for factor in (1.0, 10.0):
        module = reader()
        train(module, dataclasses.replace(texts, new=("head.weight",)), plan(epochs=1, learning_rate=1e-5, new_factor=factor))
        moved.append(float((module.head.weight - reader().head.weight).detach().abs().mean()))
    assert 5 < moved[1] / moved[0] < 15


def test_bfloat16_on_a_cpu_is_asked_for_and_changes_little(texts):
    exact, coarse, again = reader(dropout=0.0), reader(dropout=0.0), reader(dropout=0.0)
    train(exact, texts, plan(epochs=1))
    for module in (coarse, again):
        train(module, texts, plan(epochs=1, bfloat16=True))
    assert equal(coarse, again)
    assert not equal(coarse, exact)
    start = reader(dropout=0.0)
    moved = torch.cat([(a - b).flatten() for a, b in zip(exact.parameters(), start.parameters(), strict=True)])
    apart = torch.cat([(a - b).flatten() for a, b in zip(exact.parameters(), coarse.parameters(), strict=True)])
    assert apart.norm() < 0.1 * moved.norm()


class Exploding(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.seen = reader(), 0

    def forward(self, ids):
        self.seen += self.training
        return self.body(ids) * (float("nan") if self.seen >= 8 else 1.0)


def test_a_loss_that_is_no_number_stops_it(texts, tmp_path, always_due):
    with pytest.raises(GoalError, match="step 8 of 15") as caught:
        train(Exploding(), texts, plan(), resume=tmp_path)
    assert caught.value.code == "diverged"
    assert checkpoints.read(tmp_path / checkpoints.FILE)["position"] == [2, 1]


def test_lessons_that_teach_nothing_are_refused(texts):
    one = texts.fit.chosen(range(20))
    high = dataclasses.replace(texts.fit, labels=(5,) * len(texts.fit))
    teacher = reader(1).eval()
    for changes, code in (
        ({"fit": one}, "one-class"),
        ({"fit": texts.fit.chosen(())}, "no-texts"),
        ({"fit": texts.fit.without_labels()}, "labels-missing"),
        ({"fit": high}, "classes"),
        ({"unlabelled": texts.tune}, "teacher-missing"),
        ({"teacher": teacher, "soft": SoftLabels(features=0.1)}, "features"),
    ):
        with pytest.raises(InputError) as caught:
            train(reader(), dataclasses.replace(texts, **changes), plan())
        assert caught.value.code == code
        assert "photo" not in str(caught.value)
    with pytest.raises(InputError, match="5 outputs for 3 classes"):
        train(reader(classes=5), texts, plan())

"""Learning from a teacher: losses, feature maps, photos without labels; and lessons that are refused."""

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from training_toys import COLOURS, FACTS, draw_photos, equal, plan, tiny

from edgekit.build.data import Dataset, open_data
from edgekit.build.training.evaluate import evaluate
from edgekit.build.training.features import Alignment, last_maps, pairs_of
from edgekit.build.training.lesson import Lesson
from edgekit.build.training.objective import Objective, hard_loss, soft_loss
from edgekit.build.training.plan import SoftLabels
from edgekit.build.training.teacher import as_seen_by
from edgekit.build.training.trainer import train
from edgekit.spec.errors import InputError

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def teacher(lesson):
    module = tiny(7, width=12)
    train(module, lesson, plan(epochs=8))
    return module


def test_soft_labels_are_those_of_hinton():
    student, taught = torch.tensor([[1.0, 2.0, 0.5]]), torch.tensor([[3.0, -1.0, 0.0]])
    p, q = F.softmax(taught / 4, 1), F.softmax(student / 4, 1)
    assert soft_loss(student, taught, temperature=4.0).item() == pytest.approx(float((p * (p / q).log()).sum() * 16), rel=1e-5)
    assert soft_loss(taught, taught, temperature=4.0).item() == pytest.approx(0.0, abs=1e-6)


def test_photos_without_a_label_count_nothing_in_the_hard_loss():
    logits = torch.randn(3, 4)
    labels = torch.tensor([2, -1, 0])
    expected = F.cross_entropy(logits[[0, 2]], labels[[0, 2]], reduction="sum", label_smoothing=0.1)
    assert torch.allclose(hard_loss(logits, labels, smoothing=0.1), expected)


def test_a_student_learns_from_the_teacher_without_a_single_label(lesson, teacher):
    bare = Lesson(lesson.fit.without_labels(), lesson.tune.without_labels(), FACTS, teacher, SoftLabels(share=1.0))
    student = tiny()
    trained = train(student, bare, plan(epochs=8))
    found = evaluate(student, lesson.tune, FACTS).argmax(1)
    assert (found == np.asarray(lesson.tune.labels)).mean() > 0.95
    assert trained.history[-1].tune_top1 > 0.95  # agreement with the teacher


def test_gradients_reach_the_student_and_the_projections_alone(lesson, teacher):
    student = tiny(width=8).requires_grad_(True)
    x, labels = torch.randn(4, 3, 32, 32), torch.tensor([0, 1, 2, -1])
    before = {key: value.clone() for key, value in teacher.state_dict().items()}
    alignment = Alignment(pairs_of(student.eval(), teacher, x))
    handles = alignment.attach(student, teacher)
    objective = Objective(student, teacher, alignment, SoftLabels(features=0.3), 0.1, "cpu")
    loss, correct = objective.part(x, labels, count=4, labelled=3)
    loss.backward()
    for handle in handles:
        handle.remove()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in student.parameters())
    assert all(p.grad is not None for p in alignment.parameters())
    assert all(p.grad is None for p in teacher.parameters())
    assert 0 <= int(correct) <= 3
    # Teaching changes no teacher, its batch norms included.
    taught = dataclasses.replace(lesson, teacher=teacher, soft=SoftLabels(features=0.3))
    train(tiny(), taught, plan(epochs=1))
    assert all(torch.equal(before[key], value) for key, value in teacher.state_dict().items())


class Skipping(nn.Module):
    """A sum that is no module of its own, in a container; an activation used twice, at two sizes; a gate."""

    def __init__(self, channels):
        super().__init__()
        self.stem, self.act = nn.Conv2d(3, channels, 3, 2, 1), nn.ReLU()
        self.block = Sum(channels)
        self.down = nn.Conv2d(channels, channels, 3, 2, 1)
        self.gate = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(channels, 3)

    def forward(self, x):
        x = self.block(self.act(self.stem(x)))
        return self.head(self.gate(self.act(self.down(x))).flatten(1))


class Sum(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.convolution = nn.Conv2d(channels, channels, 3, 1, 1)

    def forward(self, x):
        return x + self.convolution(x)


def test_the_last_map_of_each_size_is_found():
    x = torch.zeros(1, 3, 32, 32)
    assert last_maps(Skipping(6), x) == {(16, 16): ("block", 6), (8, 8): ("act", 6)}


def test_maps_of_other_channels_and_sizes_are_aligned():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 32, 32)
    student, teacher = tiny(width=6).eval(), Skipping(12)
    pairs = pairs_of(student, teacher, x)
    assert [(p.size, p.student, p.teacher, p.student_channels, p.teacher_channels) for p in pairs] == [
        ((16, 16), "2", "block", 6, 12),
        ((8, 8), "5", "act", 12, 12),
    ]
    alignment = Alignment(pairs)
    assert [type(p) for p in alignment.projections] == [nn.Conv2d, nn.Identity]
    handles = alignment.attach(student, teacher)
    teacher(x), student(x)
    whole = alignment.loss()
    teacher(x[:1]), student(x[:1])
    first = alignment.loss()
    teacher(x[1:]), student(x[1:])
    assert torch.allclose(first + alignment.loss(), whole, rtol=1e-5)  # parts of a step add up
    for handle in handles:
        handle.remove()
    same = Alignment(pairs_of(teacher, teacher, x))
    handles = same.attach(teacher, teacher)
    teacher(x)
    assert same.loss().item() == 0.0


def test_alignment_draws_maps_together(lesson, teacher):
    """With labels and answers left out of the loss as far as possible, the maps come nearer."""

    def distance(student):
        x = torch.randn(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
        same = Alignment(pairs_of(student, teacher, x))
        handles = same.attach(student, teacher)
        with torch.no_grad():
            teacher(x), student(x)
            loss = float(same.loss())
        for handle in handles:
            handle.remove()
        return loss

    with_maps, without = tiny(1, width=12), tiny(1, width=12)
    taught = dataclasses.replace(lesson, teacher=teacher, soft=SoftLabels(share=0.5, features=10.0))
    assert train(with_maps, taught, plan(epochs=4)).aligned_maps == 2
    train(without, dataclasses.replace(taught, soft=SoftLabels(share=0.5)), plan(epochs=4))
    assert distance(with_maps) < 0.8 * distance(without)


def test_a_teacher_gets_its_own_normalisation(teacher, lesson):
    other = dataclasses.replace(FACTS, mean=(100.0, 110.0, 120.0), std=(50.0, 60.0, 70.0))
    expected = evaluate(teacher, lesson.tune, FACTS)
    found = evaluate(as_seen_by(other, teacher, FACTS), lesson.tune, other)
    assert np.abs(found - expected).max() < 1e-4
    assert as_seen_by(FACTS, teacher, FACTS) is teacher


def test_unlabelled_photos_teach_too(lesson, teacher):
    taught = dataclasses.replace(lesson, teacher=teacher, fit=lesson.fit.take(6))
    more = dataclasses.replace(taught, unlabelled=lesson.fit)
    a, b, c = tiny(), tiny(), tiny()
    train(a, taught, plan(epochs=2))
    train(b, more, plan(epochs=2))
    # Labels of photos that count as unlabelled are not looked at.
    train(c, dataclasses.replace(more, unlabelled=lesson.fit.without_labels()), plan(epochs=2))
    assert not equal(a, b)
    assert equal(b, c)


def refused(lesson, module=None):
    with pytest.raises(InputError) as caught:
        train(tiny() if module is None else module, lesson, plan())
    assert caught.value.fix
    assert caught.value.where
    return caught.value


def test_lessons_that_teach_nothing_are_refused(lesson, teacher, tmp_path):
    replace = dataclasses.replace
    error = refused(replace(lesson, fit=lesson.fit.without_labels()))
    assert (error.code, "--data" in error.fix) == ("labels-missing", True)
    assert error.what == "60 of 60 photos to learn from have no label"
    assert refused(replace(lesson, tune=lesson.tune.without_labels())).code == "labels-missing"
    assert refused(replace(lesson, fit=lesson.fit.without_labels(), teacher=teacher)).code == "labels-missing"
    assert refused(replace(lesson, fit=Dataset("none", ()))).code == "no-photos"
    assert refused(replace(lesson, tune=Dataset("none", ()))).code == "no-photos"
    assert refused(replace(lesson, unlabelled=lesson.fit)).code == "teacher-missing"
    red = open_data(draw_photos(tmp_path / "one", each=4, colours={"red": COLOURS["red"]}))
    error = refused(replace(lesson, fit=red))
    assert error.code == "one-class"
    assert "'red'" in error.what
    assert refused(replace(lesson, facts=replace(FACTS, classes=2)), tiny(classes=2)).code == "classes"
    assert refused(lesson, tiny(classes=4)).code == "classes"
    error = refused(replace(lesson, teacher=tiny(classes=5)))
    assert error.code == "teacher-classes"
    assert "5" in error.what

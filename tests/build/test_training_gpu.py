"""The same trainer on a GPU, where there is one."""

import dataclasses

import numpy as np
import pytest
import torch
from training_toys import FACTS, lesson_in, plan, tiny

from edgekit.build.training import checkpoints
from edgekit.build.training.evaluate import evaluate
from edgekit.build.training.plan import SoftLabels
from edgekit.build.training.trainer import train

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    return lesson_in(tmp_path_factory.mktemp("photos"))


def test_a_gpu_learns_the_same_and_hands_the_network_back(lesson):
    module = tiny()
    train(module, lesson, plan(epochs=8, device="cuda", augment=True, micro_batch=5))
    assert {p.device.type for p in module.parameters()} == {"cpu"}
    assert all(p.is_contiguous() for p in module.parameters())
    here = evaluate(module, lesson.tune, FACTS)
    assert (here.argmax(1) == np.asarray(lesson.tune.labels)).mean() > 0.95
    assert np.abs(evaluate(module, lesson.tune, FACTS, device="cuda") - here).max() < 0.05 * np.abs(here).max()
    assert next(module.parameters()).device.type == "cpu"


def test_a_gpu_is_taught_and_goes_on_after_an_interrupt(lesson, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints.Keeper, "due", lambda self: True)
    teacher = tiny(7, width=12)
    train(teacher, lesson, plan(epochs=8, device="cuda"))
    taught = dataclasses.replace(lesson, teacher=teacher, soft=SoftLabels(features=0.1), unlabelled=lesson.tune)
    training = plan(epochs=8, device="cuda")

    def interrupt(fraction, note):
        if fraction > 0.4:
            raise KeyboardInterrupt

    module, seen = tiny(), []
    with pytest.raises(KeyboardInterrupt):
        train(module, taught, training, resume=tmp_path, progress=interrupt)
    assert next(module.parameters()).device.type == next(teacher.parameters()).device.type == "cpu"
    again = tiny()
    trained = train(again, taught, training, resume=tmp_path, progress=lambda fraction, note: seen.append(fraction))
    assert seen[0] > 0.3
    assert trained.aligned_maps == 2
    assert (evaluate(again, lesson.tune, FACTS).argmax(1) == np.asarray(lesson.tune.labels)).mean() > 0.9

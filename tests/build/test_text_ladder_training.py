"""Early exits of a network that reads text: that they learn, what the network keeps, and what an interrupt does not change."""

import copy
import dataclasses
import os

import numpy as np
import pytest
import torch
from test_texts_fit import CONFIG, TRAINING, checkpoint_in, draw_texts
from test_training_resume import always_due, interrupt_after  # noqa: F401 - a fixture
from token_toys import FACTS, draw_tokens, plan
from training_toys import equal

from edgekit.build import pipeline
from edgekit.build.checkpoint import read_history
from edgekit.build.stages.fit_text import FitText
from edgekit.build.stages.text_exits import TEXT_EXIT_TRAINING, TEXT_EXITS, TrainTextExits
from edgekit.build.store import Store
from edgekit.build.text.checkpoint import read_text_checkpoint
from edgekit.build.text.exit_checkpoint import read_text_exits
from edgekit.build.text.exits import StagedText, new_text_exits, train_text_exits
from edgekit.build.text.network import TextNetwork
from edgekit.build.text.splits import choose_text_splits
from edgekit.build.training.evaluate import evaluate
from edgekit.build.training.lesson import Lesson
from edgekit.build.training.plan import Exits, SoftLabels
from edgekit.build.training.trainer import train
from edgekit.spec.errors import InputError

pytest.importorskip("tokenizers")
pytestmark = pytest.mark.usefixtures("one_thread")

DEEP = dataclasses.replace(CONFIG, layers=3, positions=24)
JOINT, FROZEN = Exits(joint=True), Exits()


@pytest.fixture(scope="module")
def lesson():
    return Lesson(draw_tokens(each=40), draw_tokens(each=20, seed=1), FACTS)


@pytest.fixture(scope="module")
def fitted(lesson):
    """A network that tells the classes apart."""
    torch.manual_seed(0)
    module = TextNetwork(DEEP, 3)
    train(module, lesson, plan(epochs=6))
    return module


def tops(module, heads, lesson):
    """Share right of each exit and of the last answer, on texts to tune."""
    answers = evaluate(StagedText(module, heads, joint=False), lesson.tune, lesson.facts).argmax(2)
    return (answers == np.asarray(lesson.tune.labels)[:, None]).mean(0)


def learned(module, lesson, training=None, exits=JOINT, **options):
    heads = new_text_exits(module, (), seed=3)
    told = train_text_exits(module, heads, lesson, training or plan(epochs=5, learning_rate=5e-3), exits=exits, **options)
    return heads, told


def test_joint_training_lifts_exits_and_keeps_the_last_answer(lesson, fitted):
    module = copy.deepcopy(fitted)
    before = tops(module, new_text_exits(module, (), seed=3), lesson)
    assert before[-1] > 0.9
    assert before[:-1].max() < 0.7
    heads, told = learned(module, lesson)
    after = tops(module, heads, lesson)
    assert after[:-1].min() > 0.85
    assert after[-1] >= before[-1] - 0.05
    assert not equal(module, fitted)
    assert told.history[told.best_epoch - 1].tune_top1 == pytest.approx(after.mean())
    assert not any(p.requires_grad for head in heads.values() for p in head.parameters())


def test_a_frozen_network_stays_to_the_bit(lesson, fitted):
    module = copy.deepcopy(fitted)
    before = tops(module, new_text_exits(module, (), seed=3), lesson)
    heads, _ = learned(module, lesson, plan(epochs=5, learning_rate=2e-2), FROZEN)
    after = tops(module, heads, lesson)
    assert equal(module, fitted)
    assert after[-1] == before[-1]
    assert (after[:-1] > before[:-1]).all()


def test_the_last_answer_teaches_the_exits(lesson, fitted):
    """A network that is wrong on purpose: exits believe it or the labels, as they are told."""
    module = copy.deepcopy(fitted)
    with torch.no_grad():
        for part in (module.head.weight, module.head.bias):
            part.copy_(part[[1, 2, 0]])
    training = plan(epochs=6, learning_rate=2e-2)
    believing = learned(module, lesson, training, Exits(soft=SoftLabels(share=1.0)))[0]
    doubting = learned(module, lesson, training, Exits(soft=SoftLabels(share=0.0)))[0]
    assert tops(module, believing, lesson)[1] < 0.4
    assert tops(module, doubting, lesson)[1] > 0.7


def test_heads_learn_faster_than_their_network(lesson, fitted):
    module = copy.deepcopy(fitted)
    start = new_text_exits(module, (), seed=3)
    heads, _ = learned(module, lesson, plan(epochs=2, learning_rate=1e-7, new_factor=1e5))
    assert (module.head.weight - fitted.head.weight).abs().max() < 1e-5
    assert (heads["2"].linear.weight - start["2"].linear.weight).abs().max() > 1e-3


@pytest.mark.usefixtures("always_due")
@pytest.mark.parametrize("exits", [JOINT, FROZEN], ids=["joint", "frozen"])
def test_what_was_interrupted_gives_the_same_bits(lesson, fitted, tmp_path, exits):
    training, whole = plan(epochs=2), copy.deepcopy(fitted)
    expected, _ = learned(whole, lesson, training, exits)
    with pytest.raises(KeyboardInterrupt):
        learned(copy.deepcopy(fitted), lesson, training, exits, resume=tmp_path, progress=interrupt_after(13))
    module, seen = copy.deepcopy(fitted), []
    heads, _ = learned(module, lesson, training, exits, resume=tmp_path, progress=lambda *news: seen.append(news))
    assert len(seen) < 20
    assert all(equal(heads[place], expected[place]) for place in expected)
    assert equal(module, whole)


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    return choose_text_splits(draw_texts(tmp_path_factory.mktemp("texts") / "t.csv"), seed=0, trains=True)[0]


def run(tmp_path, stage, source):
    return pipeline.run((stage,), source, store=Store(tmp_path / "store"))[0]


def test_the_stage_writes_exits_beside_the_checkpoint(tmp_path, splits):
    source = run(tmp_path, FitText(splits, TRAINING), checkpoint_in(tmp_path / "start", config=DEEP))
    made = run(tmp_path, TrainTextExits(splits, plan(epochs=4)), source)
    assert sorted(set(os.listdir(made.path)) - set(os.listdir(source.path))) == ["exits.json", "exits.pt"]
    module, facts, _ = read_text_checkpoint(made.path)
    _, before, _ = read_text_checkpoint(source.path)
    assert facts.names == before.names
    assert facts.weights_sha256 != before.weights_sha256
    assert list(read_text_exits(made.path)) == ["1", "2"]
    history = read_history(made.path)
    assert history["fit"] == read_history(source.path)["fit"]
    told = history["text-exits"]
    assert (told["after"], told["joint"], len(told["tune_top1_each"])) == (["1", "2"], True, 3)
    assert told["tune_top1_each"][-1] >= told["tune_top1_before"] - 0.1
    assert module(torch.ones(1, 8, dtype=torch.int64)).shape == (1, 3)


def test_the_stage_goes_on_from_exits_that_are_there(tmp_path, splits):
    source = checkpoint_in(tmp_path / "start", classes=3, names=splits.classes, config=DEEP)
    once = run(tmp_path, TrainTextExits(splits, plan(epochs=1), ("1",)), source)
    again = run(tmp_path, TrainTextExits(splits, plan(epochs=1, learning_rate=1e-9), ("1",)), once)
    first, second = (read_text_exits(made.path)["1"].linear.weight for made in (once, again))
    torch.testing.assert_close(first, second, rtol=0, atol=1e-6)


def test_the_stage_refuses_a_layer_that_is_not_there(tmp_path, splits):
    source = checkpoint_in(tmp_path / "start", classes=3, names=splits.classes, config=DEEP)
    with pytest.raises(InputError) as caught:
        run(tmp_path, TrainTextExits(splits, plan(epochs=1), ("3",)), source)
    assert caught.value.code == "exit-layer"


def test_the_usual_plan_trains_the_network_too():
    assert TEXT_EXITS.joint
    assert TEXT_EXIT_TRAINING.new_factor > 1

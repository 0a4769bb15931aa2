"""What the trainer does to a network."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn
from training_toys import FACTS, equal, plain, plan, tiny

from edgekit.build.tensors import pictures, to_tensor
from edgekit.build.training import running
from edgekit.build.training.course import Course
from edgekit.build.training.device import resolve
from edgekit.build.training.evaluate import evaluate
from edgekit.build.training.samples import Order, Samples, normalise
from edgekit.build.training.schedule import optimizer_of, rate
from edgekit.build.training.trainer import train
from edgekit.build.training.trial import undisturbed
from edgekit.spec.errors import InputError, SetupError

pytestmark = pytest.mark.usefixtures("one_thread")


def top1(module, data):
    return float((evaluate(module, data, FACTS).argmax(1) == np.asarray(data.labels)).mean())


@pytest.mark.parametrize("augment", [False, True])
def test_it_learns_what_can_be_learned(lesson, augment):
    module, told = tiny(), []
    assert top1(module, lesson.tune) < 0.7
    trained = train(module, lesson, plan(epochs=8, augment=augment), progress=lambda *news: told.append(news))
    assert top1(module, lesson.tune) > 0.95
    assert trained.history[trained.best_epoch - 1].tune_top1 == pytest.approx(top1(module, lesson.tune))
    assert (trained.steps, trained.epochs, trained.stopped_early) == (40, 8, False)
    assert trained.history[-1].train_loss < trained.history[0].train_loss
    fractions = [fraction for fraction, _ in told]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    assert told[7][1].startswith("epoch 2 of 8, loss ")


def test_the_module_ends_ready_to_use(lesson):
    module = tiny()
    state = torch.get_rng_state()
    train(module, lesson, plan(epochs=1))
    assert not module.training
    assert not any(p.requires_grad or p.grad is not None for p in module.parameters())
    assert all(p.is_contiguous() for p in module.parameters())
    assert torch.equal(torch.get_rng_state(), state)


def test_parts_of_a_step_add_up_to_the_whole_step(lesson):
    """Seven photos in parts of 3, 2 and 2: a mean of means would weigh them wrongly."""
    few = dataclasses.replace(lesson, fit=lesson.fit.take(7))
    whole, cut = plain(), plain()
    train(whole, few, plan(epochs=1, batch_size=7, micro_batch=7, learning_rate=1e-4))
    train(cut, few, plan(epochs=1, batch_size=7, micro_batch=3, learning_rate=1e-4))
    for a, b, start in zip(whole.parameters(), cut.parameters(), plain().parameters(), strict=True):
        assert (a - start).abs().max() > 5e-5
        assert (a - b).abs().max() < 1e-6


def gradients(lesson, **changes):
    """Gradients of the first step before they are clipped."""
    found = []
    original = torch.nn.utils.clip_grad_norm_

    def noting(parameters, largest):
        parameters = list(parameters)
        found.extend(p.grad.clone() for p in parameters)
        return original(parameters, largest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running.torch.nn.utils, "clip_grad_norm_", noting)
        train(plain(), lesson, plan(epochs=1, **changes))
    return found


def test_gradients_of_parts_are_the_gradient_of_the_step(lesson):
    few = dataclasses.replace(lesson, fit=lesson.fit.take(7))
    whole = gradients(few, batch_size=7, micro_batch=7)
    for micro_batch in (1, 3, 4):
        for a, b in zip(whole, gradients(few, batch_size=7, micro_batch=micro_batch), strict=True):
            assert (a - b).abs().max() < 1e-5 * a.abs().max()


def test_equal_seeds_give_equal_weights_and_others_do_not(lesson):
    first, second, third = tiny(), tiny(), tiny()
    train(first, lesson, plan(epochs=1, augment=True))
    torch.manual_seed(99)  # what was drawn before must not matter
    train(second, lesson, plan(epochs=1, augment=True))
    train(third, lesson, plan(epochs=1, augment=True, seed=4))
    assert equal(first, second)
    assert not equal(first, third)


def test_processes_that_read_photos_change_nothing(lesson, monkeypatch):
    from edgekit.build.training import samples

    here, there = tiny(), tiny()
    monkeypatch.setattr(samples, "workers", lambda device: 0)
    train(here, lesson, plan(epochs=1, augment=True))
    monkeypatch.setattr(samples, "workers", lambda device: 2)
    train(there, lesson, plan(epochs=1, augment=True))
    assert equal(here, there)


class Scripted(nn.Module):
    """Tuning losses by a script, one an epoch; its weight counts its steps."""

    def __init__(self, script):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))
        self.register_buffer("epoch", torch.zeros((), dtype=torch.int64))
        self.script = script

    def train(self, mode=True):
        if self.training and not mode:
            self.epoch += 1
        return super().train(mode)

    def forward(self, x):
        sure = -self.script[min(int(self.epoch), len(self.script) - 1)] + 0 * self.weight
        return sure * torch.ones(len(x), 3) * torch.tensor([1.0, 0.0, 0.0])


def test_it_stops_when_tuning_no_longer_gains_and_keeps_the_best_epoch(lesson):
    blue = dataclasses.replace(lesson, tune=dataclasses.replace(lesson.tune, samples=lesson.tune.samples[:6]))
    # Counted up once before the first epoch, when the network is tried on an image.
    script = (0.0, 0.0, 3.0, 1.0, 2.0, 1.0, 0.5)
    module = Scripted(script)
    trained = train(module, blue, plan(epochs=6, patience=2, average_epochs=0.0))
    losses = [np.log(2 + np.exp(-sure)) + sure for sure in (3.0, 1.0, 2.0, 1.0)]
    assert [e.tune_loss for e in trained.history] == pytest.approx(losses, abs=1e-6)
    assert trained.stopped_early
    assert trained.epochs == 4
    assert trained.best_epoch == 2
    assert int(module.epoch) == 3  # the weights of the second epoch, not of the fourth
    assert not train(Scripted(script), blue, plan(epochs=4, patience=2, average_epochs=0.0)).stopped_early
    assert train(Scripted(script), blue, plan(epochs=5, patience=0, average_epochs=0.0)).best_epoch == 5


def test_what_is_kept_is_the_mean_of_the_weights_of_the_last_epoch(lesson):
    module = plain()
    seen = [module[0].weight.detach().clone()]

    def note(fraction, told):
        if "done" not in told:  # after each step, not after the epoch
            seen.append(module[0].weight.detach().clone())

    trained = train(module, lesson, plan(epochs=1), progress=note)
    assert len(seen) == 1 + trained.steps
    torch.testing.assert_close(module[0].weight, torch.stack(seen).mean(0), rtol=1e-5, atol=1e-7)
    assert not torch.equal(module[0].weight, seen[-1])


def test_photos_without_augmentation_look_as_at_run_time(lesson):
    samples = Samples((lesson.fit,), FACTS, seed=0, augment=False)
    seen = torch.stack([torch.from_numpy(samples[0, 1, i][0].copy()) for i in range(5)])
    expected = pictures(dataclasses.replace(lesson.fit, samples=lesson.fit.samples[:5]), FACTS)
    assert np.array_equal(seen.numpy(), expected)
    assert torch.equal(normalise(seen, FACTS), to_tensor(expected, FACTS))


def test_augmented_photos_depend_on_their_place_alone(lesson):
    samples = Samples((lesson.fit,), FACTS, seed=0, augment=True)
    first = samples[0, 1, 7][0]
    torch.manual_seed(5)
    samples[0, 1, 3]
    assert np.array_equal(samples[0, 1, 7][0], first)
    assert first.shape == (32, 32, 3)
    assert not np.array_equal(samples[0, 2, 7][0], first)
    assert not np.array_equal(Samples((lesson.fit,), FACTS, seed=1, augment=True)[0, 1, 7][0], first)


def test_an_epoch_takes_every_photo_once_in_even_steps():
    order = Order(photos=40, unlabelled=0, batch_size=32, seed=0)
    batches = order.batches(1)
    assert [len(keys) for keys in batches] == [20, 20]
    assert sorted(i for keys in batches for _, _, i in keys) == list(range(40))
    assert order.batches(1, start=1) == batches[1:]
    assert order.batches(2) != batches
    assert Order(photos=5, unlabelled=0, batch_size=32, seed=0).steps == 1


def test_unlabelled_photos_are_half_of_each_step_and_come_in_turn():
    order = Order(photos=12, unlabelled=5, batch_size=8, seed=0)
    batches = [*order.batches(1), *order.batches(2)]
    assert all([part for part, _, _ in keys] == [0] * 4 + [1] * 4 for keys in batches)
    taken = [index for keys in batches for part, _, index in keys if part == 1]
    assert sorted(taken[:5]) == sorted(taken[5:10]) == list(range(5))
    assert taken[:5] != taken[5:10]


def test_the_rate_warms_up_and_falls_to_nothing():
    training = plan(warmup=0.1, learning_rate=1.0)
    rates = [rate(step, steps=100, training=training) for step in range(100)]
    assert rates[10] == max(rates) == 1.0
    assert rates[:11] == sorted(rates[:11])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert 0 < rates[-1] < 1e-3
    assert rate(0, steps=1, training=training) == 1.0


def test_vectors_do_not_decay():
    groups = optimizer_of((tiny(),), plan(weight_decay=0.5)).param_groups
    assert [group["weight_decay"] for group in groups] == [0.5, 0.0]
    assert {p.dim() for p in groups[0]["params"]} == {2, 4}
    assert {p.dim() for p in groups[1]["params"]} == {1}


class Watching(nn.Module):
    """Notes the largest value it saw in any mode, and its shape changes with the first: as observers of ranges do."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 3)
        self.register_buffer("lowest", torch.tensor(torch.inf))

    def forward(self, x):
        lowest = x.amin((0, 2, 3)).detach()
        self.lowest.resize_(3).copy_(torch.minimum(self.lowest.reshape(-1)[:1], lowest))
        return self.head(x.mean((2, 3)))


def test_trying_a_network_on_an_image_leaves_no_trace():
    module = Watching()
    buffer = module.lowest
    with undisturbed(module):
        module(torch.zeros(1, 3, 4, 4))
        assert module.lowest.tolist() == [0, 0, 0]
    assert module.lowest is buffer
    assert module.lowest.shape == ()
    assert module.lowest.isinf()


def test_a_training_begins_with_untouched_buffers(lesson):
    bright = dataclasses.replace(lesson, facts=dataclasses.replace(FACTS, mean=(-10.0,) * 3))
    module = Watching()
    train(module, bright, plan(epochs=1))
    assert module.lowest.min() > 0  # no black image: all photos are above zero


class Viewing(nn.Module):
    """A view that exists in rows only, as exported graphs have them."""

    def __init__(self):
        super().__init__()
        self.convolution, self.head = nn.Conv2d(3, 8, 3, 4), nn.Linear(512, 3)

    def forward(self, x):
        x = self.convolution(x)
        return self.head(x.view(x.shape[0], -1))


def test_a_network_that_needs_rows_gets_rows(lesson):
    train(Viewing(), lesson, plan(epochs=1))


def test_devices(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve("auto") == resolve("cpu") == "cpu"
    with pytest.raises(SetupError, match="cuda") as caught:
        resolve("cuda")
    assert caught.value.code == "cuda-missing"
    with pytest.raises(InputError, match="tpu"):
        resolve("tpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert resolve("auto") == "cuda"


def test_a_course_of_another_plan_is_not_taken_up(lesson):
    x = torch.zeros(2, 3, 32, 32)
    module = tiny().requires_grad_(True)
    state = Course(module, lesson, plan(), x=x).state()
    assert Course(module, lesson, plan(), x=x).take_up(state)
    assert not Course(module, lesson, plan(seed=9), x=x).take_up(state)
    assert not Course(tiny(width=4), lesson, plan(), x=x).take_up(state)
    assert not Course(module, lesson, plan(), x=x).take_up(None)

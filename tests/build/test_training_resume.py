"""Interrupts, full disks and losses that are no numbers."""

import errno
import os

import pytest
from torch import nn
from training_toys import FACTS, equal, plan, tiny

from edgekit.build.training import checkpoints
from edgekit.build.training.plan import SoftLabels
from edgekit.build.training.trainer import train
from edgekit.spec.errors import GoalError

TRAINING = plan(epochs=3, augment=True, micro_batch=5)
STEPS = 15


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def always_due(monkeypatch):
    """A checkpoint before every step."""
    monkeypatch.setattr(checkpoints.Keeper, "due", lambda self: self.path is not None)


def interrupt_after(calls):
    """A progress callback that interrupts at its n-th call."""
    told = []

    def progress(fraction, note):
        told.append(fraction)
        if len(told) == calls:
            raise KeyboardInterrupt

    return progress


def whole(lesson, training=TRAINING):
    module = tiny()
    return module, train(module, lesson, training)


@pytest.mark.parametrize("calls", [1, 4, 5, 6, 7, 13, 17, 18])
def test_what_was_interrupted_gives_the_same_bits(lesson, tmp_path, always_due, calls):
    """Calls 6, 12 and 18 come at the end of an epoch, when its checkpoint is written."""
    expected, told = whole(lesson)
    with pytest.raises(KeyboardInterrupt):
        train(tiny(), lesson, TRAINING, resume=tmp_path, progress=interrupt_after(calls))
    assert os.listdir(tmp_path) == [checkpoints.FILE]
    module, seen = tiny(), []
    again = train(module, lesson, TRAINING, resume=tmp_path, progress=lambda fraction, note: seen.append(fraction))
    assert equal(module, expected)
    # Taken up before the step it was interrupted after: only an epoch's end, a call of its own, is not done twice.
    assert len(seen) == STEPS + 3 - calls + (calls % 6 > 0)
    for a, b in zip(told.history, again.history, strict=True):
        assert (a.train_loss, a.train_top1, a.tune_loss, a.learning_rate) == (
            b.train_loss,
            b.train_top1,
            b.tune_loss,
            b.learning_rate,
        )


def test_many_interrupts_in_a_row_change_nothing(lesson, tmp_path, always_due):
    expected, _ = whole(lesson)
    for _ in range(40):
        module = tiny()
        try:
            train(module, lesson, TRAINING, resume=tmp_path, progress=interrupt_after(2))
            break
        except KeyboardInterrupt:
            continue
    else:
        pytest.fail("it never ended")
    assert equal(module, expected)


def test_distillation_with_projections_and_unlabelled_photos_resumes(lesson, tmp_path, always_due):
    teacher = tiny(5, width=12).eval()
    soft = SoftLabels(features=0.5)
    taught = type(lesson)(lesson.fit, lesson.tune, FACTS, teacher, soft, lesson.tune)
    expected, _ = whole(taught)
    with pytest.raises(KeyboardInterrupt):
        train(tiny(), taught, TRAINING, resume=tmp_path, progress=interrupt_after(8))
    module = tiny()
    train(module, taught, TRAINING, resume=tmp_path)
    assert equal(module, expected)


def test_a_training_that_is_over_is_not_run_again(lesson, tmp_path):
    first, told = tiny(), []
    train(first, lesson, TRAINING, resume=tmp_path / "new" / "folder")
    second = tiny()
    trained = train(second, lesson, TRAINING, resume=tmp_path / "new" / "folder", progress=lambda *news: told.append(news))
    assert not told
    assert trained.steps == STEPS
    assert equal(first, second)


def test_checkpoints_are_as_rare_as_asked(lesson, tmp_path, monkeypatch):
    written = []
    original = checkpoints.write
    monkeypatch.setattr(checkpoints, "write", lambda path, packed: written.append(len(packed)) or original(path, packed))
    train(tiny(), lesson, TRAINING, resume=tmp_path)
    assert len(written) == 3  # the ends of the epochs; 20 seconds never passed
    assert not checkpoints.Keeper(None).due()
    monkeypatch.setattr(checkpoints, "INTERVAL_S", 0.0)
    assert checkpoints.Keeper(tmp_path).due()


def test_a_damaged_checkpoint_is_as_good_as_none(lesson, tmp_path):
    expected, _ = whole(lesson)
    (tmp_path / checkpoints.FILE).write_bytes(b"PK\x03\x04 no more")
    module = tiny()
    train(module, lesson, TRAINING, resume=tmp_path)
    assert equal(module, expected)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_checkpoint_before(lesson, tmp_path, always_due, monkeypatch, call):
    expected, _ = whole(lesson)
    with pytest.raises(KeyboardInterrupt):
        train(tiny(), lesson, TRAINING, resume=tmp_path, progress=interrupt_after(7))
    before = (tmp_path / checkpoints.FILE).read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints.os, call, full)
        with pytest.raises(OSError, match="No space left") as caught:
            train(tiny(), lesson, TRAINING, resume=tmp_path)
    assert caught.value.errno == errno.ENOSPC
    assert os.listdir(tmp_path) == [checkpoints.FILE]
    assert (tmp_path / checkpoints.FILE).read_bytes() == before
    module = tiny()
    train(module, lesson, TRAINING, resume=tmp_path)
    assert equal(module, expected)


def test_a_half_written_file_of_a_killed_process_is_swept(lesson, tmp_path):
    (tmp_path / f"{checkpoints.FILE}.1.part").write_bytes(b"half")
    train(tiny(), lesson, TRAINING, resume=tmp_path)
    assert os.listdir(tmp_path) == [checkpoints.FILE]


class Exploding(nn.Module):
    """Its loss is no number from the n-th look in training mode on."""

    def __init__(self, looks):
        super().__init__()
        self.body, self.looks, self.seen = tiny(), looks, 0

    def forward(self, x):
        self.seen += self.training
        return self.body(x) * (float("nan") if self.training and self.seen >= self.looks else 1.0)


def test_a_loss_that_is_no_number_stops_it_and_keeps_the_good_weights(lesson, tmp_path, always_due):
    module = Exploding(8)
    with pytest.raises(GoalError, match=r"loss is no finite number in step 8 of 15, epoch 2 of 3") as caught:
        train(module, lesson, plan(), resume=tmp_path)
    assert caught.value.code == "diverged"
    assert caught.value.fix == "lower --learning-rate from 0.01 to 0.001"
    assert str(tmp_path / checkpoints.FILE) in caught.value.where
    kept = checkpoints.read(tmp_path / checkpoints.FILE)
    assert kept["position"] == [2, 1]  # before the seventh step, whose loss was a number
    assert all(value.isfinite().all() for value in kept["model"].values())
    assert not any(p.requires_grad for p in module.parameters())


def test_a_mad_learning_rate_diverges_and_only_proved_weights_are_kept(lesson, tmp_path, always_due):
    with pytest.raises(GoalError, match="in step 2 of 15") as caught:
        train(tiny(dropout=0.0), lesson, plan(learning_rate=1e30, warmup=0.0), resume=tmp_path)
    assert caught.value.code == "diverged"
    kept = checkpoints.read(tmp_path / checkpoints.FILE)
    assert kept["position"] == [1, 0]
    assert max(float(value.abs().max()) for value in kept["model"].values()) < 10


def test_without_a_folder_the_error_names_no_checkpoint(lesson):
    with pytest.raises(GoalError, match="in step 1 of 15") as caught:
        train(Exploding(1), lesson, plan())
    assert "began with" in caught.value.where

"""The stages that train: what they write, what they refuse, and that a kill changes nothing."""

import dataclasses
import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from fit_chain import TRAINING as SLOW
from fit_chain import checkpoint_in, network_in
from training_toys import COLOURS, draw_photos, plan

from edgekit.build import pipeline
from edgekit.build.artifact import pin
from edgekit.build.checkpoint import read_checkpoint, read_history
from edgekit.build.data import open_data
from edgekit.build.facts import read_facts
from edgekit.build.splits import choose_splits
from edgekit.build.stages.distill import Distill
from edgekit.build.stages.fit import Fit
from edgekit.build.store import Store
from edgekit.build.structure import Structure, read_structure, write_structure
from edgekit.build.training import checkpoints
from edgekit.build.training.evaluate import evaluate
from edgekit.build.training.plan import SoftLabels
from edgekit.spec.errors import GoalError, InputError, SetupError

TRAINING = plan(epochs=6)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return draw_photos(tmp_path_factory.mktemp("photos"), each=24)


@pytest.fixture(scope="module")
def splits(photos):
    return choose_splits(photos, seed=0, trains=True)[0]


def run(tmp_path, stage, source, store="store"):
    return pipeline.run((stage,), source, store=Store(tmp_path / store))[0]


def test_fit_gives_a_new_head_and_learns(tmp_path, splits):
    network = network_in(tmp_path)
    source = checkpoint_in(tmp_path / "start", network, classes=7, labels="imagenet", license="MIT")
    (source.path / "history.json").write_text('{"before": {"photos": 1}}')
    made = run(tmp_path, Fit(network, splits, TRAINING), source)
    facts = read_facts(made.path)
    assert (facts.classes, facts.labels, facts.names) == (3, None, ("blue", "green", "red"))
    assert facts.weights == f"fitted on {len(splits.open().fit)} photos"
    assert len(facts.weights_sha256) == 64
    assert facts.license == "MIT"
    report = splits.open().report
    found = evaluate(read_checkpoint(made.path, network), report, facts).argmax(1)
    assert (found == np.asarray(report.labels)).mean() > 0.95
    told = read_history(made.path)
    assert sorted(told) == ["before", "fit"]
    assert told["fit"]["photos"] == len(splits.open().fit)
    assert len(told["fit"]["tune_top1"]) == told["fit"]["epochs"] == 6
    assert told["fit"]["new"] == ["9.weight", "9.bias"]
    assert os.listdir(tmp_path / "store" / "resume") == []


def test_equal_fits_are_equal_bytes_and_other_seeds_are_not(tmp_path, splits):
    network = network_in(tmp_path)
    source = checkpoint_in(tmp_path / "start", network, classes=5)
    short = dataclasses.replace(TRAINING, epochs=1)
    stage = Fit(network, splits, short)
    first, second = run(tmp_path, stage, source, "a"), run(tmp_path, stage, source, "b")
    assert first.digest == second.digest
    other = run(tmp_path, Fit(network, splits, dataclasses.replace(short, seed=8)), source, "a")
    assert other.digest != first.digest


def test_photos_to_report_on_are_not_opened(tmp_path, photos, splits, monkeypatch):
    from edgekit.build.data import Dataset

    network = network_in(tmp_path)
    source = checkpoint_in(tmp_path / "start", network)
    seen = set()
    original = Dataset.pixels
    monkeypatch.setattr(Dataset, "pixels", lambda self, sample, **size: seen.add(sample.sha256) or original(self, sample, **size))
    stage = Distill(
        network, network, source, splits, dataclasses.replace(TRAINING, epochs=1), SoftLabels(), unlabelled=pin(photos)
    )
    run(tmp_path, stage, source)
    parts = splits.open()
    assert seen == {s.sha256 for part in (parts.fit, parts.tune) for s in part.samples}
    told = read_history(run(tmp_path, stage, source).path)
    assert told["distill"]["unlabelled_photos"] == len(parts.fit)


def test_distil_teaches_a_student_of_other_classes(tmp_path, splits):
    network = network_in(tmp_path)
    teacher = run(tmp_path, Fit(network, splits, TRAINING), checkpoint_in(tmp_path / "one", network))
    source = checkpoint_in(tmp_path / "two", network, classes=9, mean=(120.0, 120.0, 120.0))
    stage = Distill(network, network, teacher, splits, TRAINING, SoftLabels(features=0.1), purpose="recover")
    assert pipeline.title(stage) == "recover"
    made = run(tmp_path, stage, source)
    told = read_history(made.path)
    assert told["recover"]["teacher"] == "tiny"
    assert told["recover"]["aligned_maps"] == 2
    assert told["recover"]["tune_top1"][-1] > 0.9
    assert read_facts(made.path).weights == f"recover: {len(splits.open().fit)} photos and the answers of tiny"
    again = read_history(run(tmp_path, stage, made).path)
    assert sorted(again) == ["recover", "recover-2"]


def test_a_teacher_of_other_classes_is_refused(tmp_path, splits):
    network = network_in(tmp_path)
    source = checkpoint_in(tmp_path / "start", network)
    teacher = checkpoint_in(tmp_path / "teacher", network, classes=4)
    with pytest.raises(InputError, match="tells 4 classes apart, the data has 3") as caught:
        run(tmp_path, Distill(network, network, teacher, splits, TRAINING, SoftLabels()), source)
    assert caught.value.code == "teacher-classes"
    assert "fit the teacher" in caught.value.fix


def test_data_without_labels_or_with_one_class_is_refused(tmp_path):
    network = network_in(tmp_path)
    source = checkpoint_in(tmp_path / "start", network)
    flat = draw_photos(tmp_path / "flat", colours={"": COLOURS["red"]})
    one = draw_photos(tmp_path / "one", colours={"red": COLOURS["red"]})
    for folder, code in ((flat, "labels-missing"), (one, "one-class")):
        data, _ = choose_splits(folder, seed=0, trains=True)
        with pytest.raises(InputError) as caught:
            run(tmp_path, Fit(network, data, TRAINING), source)
        assert caught.value.code == code


def test_a_full_disk_during_a_checkpoint_is_named_and_the_next_run_goes_on(tmp_path, splits, monkeypatch):
    network = network_in(tmp_path)
    source = checkpoint_in(tmp_path / "start", network)
    stage = Fit(network, splits, TRAINING)
    original, calls = checkpoints.os.replace, []

    def full(here, there):
        calls.append(there)
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        original(here, there)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints.os, "replace", full)
        with pytest.raises(SetupError) as caught:
            run(tmp_path, stage, source)
    assert caught.value.code == "store-full"
    (folder,) = (tmp_path / "store" / "resume").iterdir()
    assert checkpoints.read(folder / checkpoints.FILE)["position"] == [3, 0]
    resumed = run(tmp_path, stage, source)
    assert resumed.digest == run(tmp_path, stage, source, "other").digest


def test_the_checkpoint_of_a_diverged_training_stays(tmp_path, splits, monkeypatch):
    monkeypatch.setattr(checkpoints.Keeper, "due", lambda self: True)
    network = network_in(tmp_path)
    source = checkpoint_in(tmp_path / "start", network)
    with pytest.raises(GoalError) as caught:
        run(tmp_path, Fit(network, splits, dataclasses.replace(TRAINING, learning_rate=1e30, warmup=0.0)), source)
    kept = Path(caught.value.where.partition(" are in ")[2])
    assert checkpoints.read(kept)["position"] == [1, 0]
    from edgekit.build.construct import read_weights

    assert "9.weight" in read_weights(kept)  # usable with --weights


def start(folder, store, pause):
    command = [sys.executable, str(Path(__file__).with_name("fit_chain.py")), str(folder), str(store), str(pause)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_killed_fit_goes_on_to_the_same_bytes(tmp_path, photos):
    (tmp_path / "photos").symlink_to(photos)
    store = tmp_path / "store"
    begun = []
    for note in ("epoch 1 of 4", "epoch 3 of 4"):
        process = start(tmp_path, store, 0.05)
        lines = []
        while not lines or note not in lines[-1]:
            lines.append(process.stdout.readline())
            assert lines[-1], process.communicate()
        process.kill()
        process.communicate(timeout=30)
        begun.append(next(float(line.split()[1]) for line in lines if "loss" in line))
        assert len(os.listdir(store / "resume")) == 1
    out, err = start(tmp_path, store, 0.05).communicate(timeout=120)
    lines = out.splitlines()
    assert lines[-1].startswith("RESULT"), err
    begun.append(next(float(line.split()[1]) for line in lines if "loss" in line))
    assert begun[2] > 0.4  # it went on and did not begin anew
    network = network_in(tmp_path)
    source = checkpoint_in(tmp_path / "start", network, classes=5)
    whole = run(tmp_path, Fit(network, choose_splits(tmp_path / "photos", seed=0, trains=True)[0], SLOW), source, "other")
    assert lines[-1].split()[1] == whole.digest
    assert os.listdir(store / "resume") == []


def test_pruning_outlives_a_fit(tmp_path, splits):
    network = network_in(tmp_path)
    source = checkpoint_in(tmp_path / "start", network)
    write_structure(source.path, Structure(pruned=True))
    made = run(tmp_path, Fit(network, splits, dataclasses.replace(TRAINING, epochs=1)), source)
    assert read_structure(made.path) == Structure(pruned=True)


BLOCKED = """
import sys

for name in ("torchao", "executorch", "onnx", "onnxruntime", "litert_torch", "timm", "scipy", "sklearn", "torch_pruning"):
    sys.modules[name] = None
import edgekit.build.training.trainer, edgekit.build.training.evaluate, edgekit.build.training.record
import edgekit.build.training.teacher, edgekit.build.new_head, edgekit.build.stages.fit, edgekit.build.stages.distill
print("torchvision" in sys.modules)
"""


def test_training_needs_torch_torchvision_numpy_and_pillow_alone():
    done = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=False)
    assert done.stdout == "False\n", done.stderr  # only photos that are augmented need torchvision


def test_the_stages_are_values_free_of_torch():
    code = "import sys, edgekit.build.stages.fit, edgekit.build.stages.distill; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_history_is_plain_json(tmp_path, splits):
    network = network_in(tmp_path)
    source = checkpoint_in(tmp_path / "start", network)
    made = run(tmp_path, Fit(network, splits, dataclasses.replace(TRAINING, epochs=1)), source)
    told = json.loads((made.path / "history.json").read_text())["fit"]
    assert "seconds" not in told
    assert open_data(splits.folder.path).classes == read_facts(made.path).names

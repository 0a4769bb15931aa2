"""The stages `train-quantized` and `sense`: what they write, and that an interrupt changes no byte."""

import dataclasses
import json

import pytest
import torch
from qat_toys import exported, fitted, modern
from training_toys import FACTS, draw_photos, lesson_in, plan

from edgekit.build import pipeline, programs
from edgekit.build.artifact import Artifact
from edgekit.build.facts import read_facts, write_facts
from edgekit.build.photos import of_splits
from edgekit.build.programs import run_each
from edgekit.build.recipe import PLAIN, Recipe
from edgekit.build.sensitivity_rows import guilty, read_sensitivities
from edgekit.build.splits import choose_splits
from edgekit.build.stages.export import PROGRAM
from edgekit.build.stages.qat import HISTORY, TrainQuantized
from edgekit.build.stages.quantize import Quantize, read_quantized
from edgekit.build.stages.sense import Sense
from edgekit.build.store import Store
from edgekit.build.training import checkpoints
from edgekit.build.training.plan import SoftLabels
from edgekit.spec.digest import sha256_tree
from edgekit.spec.errors import InputError

SOFT = SoftLabels(2.0, 0.8, features=0.1)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A float program as `export` writes it."""
    folder = tmp_path_factory.mktemp("program")
    network = fitted(modern(), lesson_in(tmp_path_factory.mktemp("photos")))
    programs.save(exported(network), folder / PROGRAM)
    write_facts(folder, FACTS)
    return Artifact("program", sha256_tree(folder), folder)


def parts_of(folder):
    splits, parts = choose_splits(folder, seed=0, trains=True)
    return splits, of_splits(splits, parts, calibration=8)[0]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """(splits, photos) of labelled squares."""
    return parts_of(draw_photos(tmp_path_factory.mktemp("data"), each=16))


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """The same of squares without labels."""
    return parts_of(draw_photos(tmp_path_factory.mktemp("bare") / "all", each=30, colours={"": (30, 60, 220)}))


def stage(data, **changes):
    splits, photos = data
    return dataclasses.replace(TrainQuantized(photos, splits, Recipe(), plan(epochs=2, learning_rate=1e-3), SOFT), **changes)


def run(tmp_path, step, source, observe=lambda event: None):
    return pipeline.run((step,), source, store=Store(tmp_path / "store"), observe=observe)[0]


def test_it_writes_what_quantize_writes_and_how_it_went(tmp_path, source, data):
    plain = run(tmp_path, Quantize(data[1], PLAIN), source)
    found = run(tmp_path, stage(data), source)
    assert found.kind == "quantized"
    names = {path.name for path in found.path.iterdir()}
    assert names == {path.name for path in plain.path.iterdir()} | {HISTORY}
    assert read_facts(found.path) == FACTS
    told = json.loads((found.path / HISTORY).read_text())["train-quantized"]
    assert (told["epochs"], told["labels"], told["teacher"]) == (2, True, "tiny")
    photo = torch.zeros(1, 3, 32, 32)
    assert not torch.equal(run_each(read_quantized(found.path).folded, photo), run_each(read_quantized(plain.path).folded, photo))


def test_without_labels_the_float_network_teaches(tmp_path, source, bare):
    found = run(tmp_path, stage(bare), source)
    told = json.loads((found.path / HISTORY).read_text())["train-quantized"]
    assert not told["labels"]
    assert told["tune_top1"][-1] > 0.9


@pytest.mark.parametrize("step", [3, 8])
def test_an_interrupt_changes_no_byte(tmp_path, source, data, monkeypatch, step):
    monkeypatch.setattr(checkpoints.Keeper, "due", lambda self: self.path is not None)
    whole = run(tmp_path / "a", stage(data, learn_scales=True), source)
    steps = []

    def interrupt(event):
        if event.kind == "progress" and event.note.startswith("epoch"):
            steps.append(event)
            if len(steps) == step:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "b", stage(data, learn_scales=True), source, observe=interrupt)
    again = run(tmp_path / "b", stage(data, learn_scales=True), source, observe=interrupt)
    assert again.digest == whole.digest
    assert not any((tmp_path / "b" / "store").rglob(checkpoints.FILE))


def test_progress_never_falls(tmp_path, source, data):
    seen = []
    run(tmp_path, stage(data), source, observe=lambda event: seen.append(event.fraction))
    assert seen == sorted(seen)


def test_labels_that_the_network_does_not_know_are_refused(tmp_path, source):
    many = {f"c{i}": (10 * i, 200, 50) for i in range(6)}
    with pytest.raises(InputError, match=r"6 classes|labels up to 5"):
        run(tmp_path, stage(parts_of(draw_photos(tmp_path / "many", each=12, colours=many))), source)


@pytest.mark.parametrize("with_splits", [True, False])
def test_sense_writes_a_row_for_each_layer(tmp_path, source, data, with_splits):
    splits, photos = data
    report = run(tmp_path, Sense(photos, splits if with_splits else None, Recipe(), n=6), source)
    rows = read_sensitivities(report.path)
    assert [row.module for row in rows] == ["stem.0", "depth.0", "squeeze.less", "squeeze.more", "point", "head"]
    assert [row.kind for row in rows] == ["conv", "depthwise", "conv", "conv", "conv", "linear"]
    assert {row.n for row in rows} == {6}
    assert all(row.drop_pp is not None for row in rows)
    assert len(guilty(rows, n=2)) == 2


def test_sense_without_labels_tells_no_drop(tmp_path, source, bare):
    rows = read_sensitivities(run(tmp_path, Sense(bare[1], bare[0], Recipe(), n=6), source).path)
    assert {row.drop_pp for row in rows} == {None}
    assert guilty(rows)[0].snr_db == min(row.snr_db for row in rows)

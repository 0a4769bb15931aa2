"""Train, decide, report: three parts that share no photo, the same every time."""

import numpy as np
import pytest
from PIL import Image

from edgekit.build.data import class_names, held_out, open_splits, split_folders
from edgekit.build.photos import of_splits
from edgekit.build.splits import choose_splits
from edgekit.spec.errors import InputError


def photos(folder, *, classes, each, seed=0):
    rng = np.random.default_rng(seed)
    for name in classes:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for i in range(each):
            Image.fromarray(rng.integers(0, 256, (12, 12, 3), np.uint8)).save(folder / name / f"{i}.png")


@pytest.fixture
def folders(tmp_path):
    photos(tmp_path / "data" / "train", classes=("ant", "bee", "cat"), each=20)
    photos(tmp_path / "data" / "validation", classes=("ant", "cat"), each=10, seed=1)
    return tmp_path / "data"


def digests(data):
    return {sample.sha256 for sample in data.samples}


@pytest.mark.parametrize("trains", [True, False])
def test_parts_share_no_photo_and_lose_none(folders, trains):
    parts = open_splits(folders, seed=0, trains=trains)
    found = [digests(part) for part in (parts.fit, parts.tune, parts.report)]
    assert len(set.union(*found)) == sum(map(len, found)) == 80


def test_training_never_touches_validation(folders):
    parts = open_splits(folders, seed=0, trains=True)
    assert (len(parts.fit), len(parts.tune), len(parts.report)) == (48, 12, 20)
    assert all("train" in str(s.source) for s in (*parts.fit.samples, *parts.tune.samples))


def test_without_training_decisions_stay_out_of_what_the_user_may_have_trained_on(folders):
    parts = open_splits(folders, seed=0, trains=False)
    assert all("validation" in str(s.source) for s in (*parts.tune.samples, *parts.report.samples))


def test_classes_of_validation_are_those_of_train(folders):
    report = open_splits(folders, seed=0, trains=True).report
    assert report.classes == ("ant", "bee", "cat")
    assert set(report.labels) == {0, 2}


def test_a_class_that_train_lacks_is_refused(folders):
    photos(folders / "validation", classes=("dog",), each=1)
    with pytest.raises(InputError, match="dog") as caught:
        open_splits(folders, seed=0, trains=True)
    assert caught.value.code == "data-classes"


@pytest.mark.parametrize("trains", [True, False])
def test_one_folder_is_cut_by_class(tmp_path, trains):
    photos(tmp_path, classes=("a", "b"), each=50)
    parts = open_splits(tmp_path, seed=3, trains=trains)
    for part in (parts.fit, parts.tune, parts.report):
        assert abs(part.labels.count(0) - part.labels.count(1)) <= 1
    again = open_splits(tmp_path, seed=3, trains=trains)
    assert [p.digest for p in (again.fit, again.tune, again.report)] == [p.digest for p in (parts.fit, parts.tune, parts.report)]
    assert open_splits(tmp_path, seed=4, trains=trains).tune.digest != parts.tune.digest


def test_too_few_photos_are_refused(tmp_path):
    photos(tmp_path, classes=("a",), each=1)
    with pytest.raises(InputError) as caught:
        open_splits(tmp_path, seed=0, trains=True)
    assert caught.value.code == "data-few"


def test_class_names_need_no_photo(folders):
    (folders / "train" / "ant" / "broken.png").write_bytes(b"no picture")
    assert class_names(folders) == ("ant", "bee", "cat")
    assert split_folders(folders) == (folders / "train", folders / "validation")
    assert held_out(folders) == folders / "validation"
    assert held_out(folders / "train") == folders / "train"


def test_value_holds_the_content_not_the_place(folders, tmp_path):
    first, parts = choose_splits(folders, seed=0, trains=True)
    folders.rename(tmp_path / "moved")
    second, _ = choose_splits(tmp_path / "moved", seed=0, trains=True)
    assert first.folder.digest == second.folder.digest
    assert first.labelled
    assert first.classes == ("ant", "bee", "cat")
    photos_, calibration = of_splits(second, parts, calibration=8)
    ours, judged = photos_.open()
    assert digests(ours) == digests(calibration) <= digests(parts.fit)
    assert digests(judged) == digests(parts.report)


def test_labels_become_the_indices_of_the_network_by_name(folders):
    splits, parts = choose_splits(folders, seed=0, trains=True)
    network = ("zebra", "cat", "bee", "ant")
    seen = splits.matched(network, 4).open()
    for mine, theirs in ((parts.fit, seen.fit), (parts.tune, seen.tune), (parts.report, seen.report)):
        assert [network[i] for i in theirs.labels] == [mine.classes[i] for i in mine.labels]
    assert {0, 1, 2, 3} > set(seen.fit.labels) == {1, 2, 3}


@pytest.mark.parametrize(
    ("names", "outputs", "labelled"), [((), 3, True), ((), 0, True), ((), 7, False), (("ant", "dog"), 2, False)]
)
def test_labels_of_other_classes_are_dropped_and_those_of_as_many_kept(folders, names, outputs, labelled):
    splits, parts = choose_splits(folders, seed=0, trains=False)
    seen = splits.matched(names, outputs)
    assert seen.labelled is labelled
    assert seen.open().tune.labels == (parts.tune.labels if labelled else None)

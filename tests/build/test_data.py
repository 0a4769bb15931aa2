import csv
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL")
from PIL import Image

from edgekit.build.data import open_data, open_parts
from edgekit.spec.errors import InputError

SIZE = {"resolution_px": 24, "resize_px": 32}


def shared():
    place = Path(os.environ.get("EDGEKIT_SHARED", Path(__file__).parents[3] / "shared"))
    return place / "data"


def photo(path, seed=0, mode="RGB", size=(40, 30)):
    """A small picture of noise; JPEG or PNG by its suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    values = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)
    Image.fromarray(values).convert(mode).save(path)
    return path


@pytest.fixture
def class_folders(tmp_path):
    for i in range(6):
        photo(tmp_path / "dress" / f"{i}.jpg", i)
    for i in range(3):
        photo(tmp_path / "Shirt" / f"{i}.png", 10 + i)
    (tmp_path / "dress" / "notes.txt").write_text("not a photo")
    (tmp_path / ".cache").mkdir()
    return tmp_path


def test_class_folders(class_folders):
    data = open_data(class_folders)
    assert data.classes == ("Shirt", "dress")
    assert data.labels == (0, 0, 0, 1, 1, 1, 1, 1, 1)
    assert data.images(**SIZE).shape == (9, 24, 24, 3)
    assert data.skipped == ()


def test_flat_folder_is_not_labelled(tmp_path):
    photo(tmp_path / "a.jpg")
    photo(tmp_path / "B.JPEG", 1)
    data = open_data(tmp_path)
    assert len(data) == 2
    assert data.labels is None


def write_table(folder, rows, header=("file", "class_index")):
    with (folder / "labels.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])


def test_labels_csv_with_indices(tmp_path):
    photo(tmp_path / "b" / "1.jpg")
    photo(tmp_path / "a" / "1.jpg", 1)
    write_table(tmp_path, [("b/1.jpg", "x", 970), ("a/1.jpg", "y", 3)], ("file", "wnid", "imagenet_class_index"))
    data = open_data(tmp_path)
    assert data.labels == (3, 970)
    assert data.classes == ()


def test_labels_csv_with_names(tmp_path):
    photo(tmp_path / "1.jpg")
    photo(tmp_path / "2.jpg", 1)
    write_table(tmp_path, [("1.jpg", "shirt"), ("2.jpg", "dress")])
    data = open_data(tmp_path)
    assert data.classes == ("dress", "shirt")
    assert data.labels == (1, 0)


def test_a_photo_that_the_table_names_but_is_missing_is_skipped(tmp_path):
    photo(tmp_path / "1.jpg")
    write_table(tmp_path, [("1.jpg", 0), ("2.jpg", 1)])
    data = open_data(tmp_path)
    assert len(data) == 1
    assert data.skipped[0].path.name == "2.jpg"


@pytest.mark.parametrize(
    ("header", "rows", "what"),
    [
        (("photo_name", "class_index"), [("1.jpg", 0)], "no column"),
        (("file", "class_index"), [], "lists no photo"),
        (("file", "class_index"), [("1.jpg",)], "row with 1 of 2 cells"),
    ],
)
def test_bad_labels_csv(tmp_path, header, rows, what):
    photo(tmp_path / "1.jpg")
    write_table(tmp_path, rows, header)
    with pytest.raises(InputError, match=what) as error:
        open_data(tmp_path)
    assert error.value.fix


def test_npz(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (5, 30, 40, 3), np.uint8)
    np.savez(tmp_path / "d.npz", images=images, labels=np.arange(5))
    data = open_data(tmp_path / "d.npz")
    assert data.labels == (0, 1, 2, 3, 4)
    assert data.images(**SIZE).shape == (5, 24, 24, 3)
    assert len(open_data(tmp_path / "d.npz", limit=2)) == 2


@pytest.mark.parametrize(
    ("arrays", "what"),
    [
        ({"images": np.zeros((2, 8, 8, 1), np.uint8)}, r"\(2, 8, 8, 1\)"),
        ({"images": np.zeros((2, 8, 8, 4), np.uint8)}, "3 channels"),
        ({"images": np.zeros((2, 3, 8, 8), np.uint8)}, "3 channels last"),
        ({"images": np.zeros((2, 8, 8, 3), np.float32)}, "float32"),
        ({"images": np.zeros((0, 8, 8, 3), np.uint8)}, "empty"),
        ({"x": np.zeros((2, 8, 8, 3), np.uint8)}, "no array `images`"),
        ({"images": np.zeros((2, 8, 8, 3), np.uint8), "labels": np.zeros(3, np.int64)}, "needs 2 integers"),
        ({"images": np.array([{}], dtype=object)}, "not a readable"),
    ],
)
def test_bad_npz(tmp_path, arrays, what):
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(InputError, match=what):
        open_data(tmp_path / "d.npz")


def test_a_file_that_is_no_npz(tmp_path):
    (tmp_path / "d.npz").write_bytes(b"PK nonsense")
    with pytest.raises(InputError, match="not a readable"):
        open_data(tmp_path / "d.npz")


@pytest.mark.parametrize("keep", [0, 20, 700], ids=["empty", "header", "truncated"])
def test_a_corrupt_photo_among_good_ones_is_named_and_skipped(class_folders, keep):
    bad = class_folders / "dress" / "2.jpg"
    bad.write_bytes(bad.read_bytes()[:keep])
    data = open_data(class_folders)
    assert len(data) == 8
    assert [s.path for s in data.skipped] == [bad]
    assert "0x" not in data.skipped[0].why
    assert data.images(**SIZE).shape[0] == 8


def test_all_photos_corrupt(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"no photo")
    with pytest.raises(InputError, match="none of 1 photos can be used"):
        open_data(tmp_path)


def test_empty_folder(tmp_path):
    with pytest.raises(InputError, match="no photo"):
        open_data(tmp_path)


@pytest.mark.parametrize("name", ["absent", "file.tar"])
def test_nothing_to_open(tmp_path, name):
    (tmp_path / "file.tar").write_bytes(b"")
    with pytest.raises(InputError) as error:
        open_data(tmp_path / name)
    assert name in error.value.where


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read(class_folders):
    class_folders.chmod(0)
    try:
        with pytest.raises(InputError, match="cannot be read"):
            open_data(class_folders)
    finally:
        class_folders.chmod(0o755)


def test_splits_are_not_taken_for_classes(class_folders, tmp_path_factory):
    root = tmp_path_factory.mktemp("splits")
    shutil.copytree(class_folders, root / "train")
    shutil.copytree(class_folders, root / "validation")
    with pytest.raises(InputError, match="two folders deep") as error:
        open_data(root)
    assert str(root / "train") in error.value.fix


def test_photos_beside_class_folders_are_refused(class_folders):
    photo(class_folders / "stray.jpg")
    with pytest.raises(InputError, match=r"stray\.jpg"):
        open_data(class_folders)


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "LA", "1"])
def test_other_channel_counts_become_rgb(tmp_path, mode):
    photo(tmp_path / "a.png", mode=mode)
    assert open_data(tmp_path).images(**SIZE).shape == (1, 24, 24, 3)


def test_cmyk_becomes_rgb(tmp_path):
    photo(tmp_path / "a.jpg", mode="CMYK")
    assert open_data(tmp_path).images(**SIZE).shape == (1, 24, 24, 3)


def test_take_is_even_over_classes_and_repeats(class_folders):
    data = open_data(class_folders)
    few = data.take(4, seed=3)
    assert sorted(s.label for s in few.samples) == [0, 0, 1, 1]
    assert few == data.take(4, seed=3)
    assert len({data.take(4, seed=s).digest for s in range(8)}) > 1
    assert len(data.take(100)) == 9


def test_a_limit_reads_no_more_photos_than_needed(class_folders):
    full = open_data(class_folders)
    assert open_data(class_folders, limit=4, seed=3).samples == full.take(4, seed=3).samples


def test_a_limit_replaces_a_corrupt_photo(class_folders):
    chosen = open_data(class_folders, limit=4)
    chosen.samples[0].source.write_bytes(b"")
    again = open_data(class_folders, limit=4)
    assert len(again) == 4
    assert len(again.skipped) == 1


def test_the_digest_is_of_the_content_not_of_the_place(class_folders, tmp_path_factory):
    copy = tmp_path_factory.mktemp("copy") / "other"
    shutil.copytree(class_folders, copy)
    first = open_data(class_folders)
    assert open_data(copy).digest == first.digest
    photo(copy / "dress" / "0.jpg", seed=99)
    assert open_data(copy).digest != first.digest
    (copy / "Shirt").rename(copy / "zShirt")
    assert open_data(copy).digest != first.digest


def test_split_is_disjoint_and_complete(class_folders):
    data = open_data(class_folders)
    ours, rest = data.split(4)
    assert len(ours) == 4
    assert {s.source for s in ours.samples}.isdisjoint(s.source for s in rest.samples)
    assert len(ours) + len(rest) == len(data)


def test_split_keeps_the_proportions_of_the_classes(tmp_path):
    for start, (name, count) in enumerate((("many", 40), ("some", 20), ("few", 5))):
        for i in range(count):
            photo(tmp_path / name / f"{i}.png", seed=100 * start + i)
    ours, rest = open_data(tmp_path).split(13)
    assert [ours.labels.count(i) for i in range(3)] == [1, 8, 4]  # of few, many, some: one in five
    assert [rest.labels.count(i) for i in range(3)] == [4, 32, 16]


@pytest.mark.parametrize(("n", "m", "expected"), [(4, 2, (4, 2)), (100, 50, (6, 3)), (1, 1, (1, 1))])
def test_parts_of_the_users_data(class_folders, n, m, expected):
    calibration, judging = open_parts(class_folders, calibration=n, judging=m)
    assert (len(calibration), len(judging)) == expected
    assert {s.source for s in calibration.samples}.isdisjoint(s.source for s in judging.samples)


def test_one_photo_serves_both_parts(tmp_path):
    photo(tmp_path / "a.jpg")
    calibration, judging = open_parts(tmp_path, calibration=8, judging=8)
    assert len(calibration) == len(judging) == 1


@pytest.mark.skipif(not (shared() / "imagenet_val").is_dir(), reason="the shared photos are not here: EDGEKIT_SHARED")
def test_photos_of_imagenet():
    data = open_data(shared() / "imagenet_val")
    assert len(data) == 250
    assert len(set(data.labels)) == 10
    assert data.images(resolution_px=224, resize_px=256).shape == (250, 224, 224, 3)

"""Writing: the same bytes each time, whole or not at all, and never what a reader would refuse."""

import dataclasses
import errno
import math
import os
import shutil
import subprocess
import sys

import pytest
import tiny

from edgekit.spec import output
from edgekit.spec.bundle import open_bundle, pack_zip, write_bundle
from edgekit.spec.digest import sha256_file, sha256_tree
from edgekit.spec.errors import BundleError, InputError, SetupError


def write(out, manifest=None, contents=None):
    return write_bundle(manifest or tiny.nano_manifest(), contents or tiny.nano_contents(), out)


def left(folder):
    return sorted(p.name for p in folder.iterdir())


def test_same_bytes_in_two_folders(tmp_path):
    first, second = tmp_path / "a", tmp_path / "deep/er/b"
    assert write(first) == write(second)
    assert sha256_tree(first) == sha256_tree(second)
    for folder in (first, second):
        pack_zip(folder, folder.with_suffix(".ekb"))
    assert sha256_file(first.with_suffix(".ekb")) == sha256_file(second.with_suffix(".ekb"))
    assert left(tmp_path) == ["a", "a.ekb", "deep"]


def test_order_of_contents_does_not_matter(tmp_path):
    reverse = dict(reversed(tiny.nano_contents().items()))
    assert write(tmp_path / "a") == write(tmp_path / "b", contents=reverse)


def test_contents_may_be_files(tmp_path):
    source = tmp_path / "network"
    source.write_bytes(tiny.nano_contents()["payloads/network.bin"])
    digest = write(tmp_path / "a", contents=tiny.nano_contents() | {"payloads/network.bin": source})
    assert digest == write(tmp_path / "b")


def test_the_umask_holds(tmp_path):
    script = (
        "import os, sys, pathlib; os.umask(0o027); sys.path.insert(0, sys.argv[1]); import tiny\n"
        "from edgekit.spec.bundle import write_bundle, pack_zip\n"
        "out = pathlib.Path(sys.argv[2])\n"
        "write_bundle(tiny.nano_manifest(), tiny.nano_contents(), out)\n"
        "pack_zip(out, out.with_suffix('.ekb'))"
    )
    subprocess.run([sys.executable, "-c", script, os.path.dirname(tiny.__file__), str(tmp_path / "a")], check=True)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "a.ekb").stat().st_mode & 0o777 == 0o640


def test_a_bundle_is_replaced(tmp_path):
    write(tmp_path / "a")
    other = dataclasses.replace(tiny.nano_manifest(), provenance={"edgekit": "9"})
    digest = write(tmp_path / "a", other)
    with open_bundle(tmp_path / "a") as bundle:
        assert bundle.digest == digest
    assert left(tmp_path) == ["a"]


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "a").mkdir()
    write(tmp_path / "a")
    assert open_bundle(tmp_path / "a").digest


def test_other_things_are_not_replaced(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/cat.jpg").write_bytes(b"cat")
    (tmp_path / "file").write_bytes(b"text")
    for name in ("photos", "file"):
        with pytest.raises(InputError) as caught:
            write(tmp_path / name)
        assert caught.value.code == "output-exists"
    with pytest.raises(InputError):
        write(tmp_path / "file/below")
    assert (tmp_path / "photos/cat.jpg").read_bytes() == b"cat"
    assert left(tmp_path) == ["file", "photos"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS])
def test_a_full_or_closed_disk(tmp_path, monkeypatch, number):
    write(tmp_path / "old")
    before = sha256_tree(tmp_path / "old")

    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("edgekit.spec.bundle_writer.sha256_file", fail)
    monkeypatch.setattr("shutil.copyfileobj", fail)
    for call, out in ((write, "new"), (write, "old"), (lambda o: pack_zip(tmp_path / "old", o), "new.ekb")):
        with pytest.raises(SetupError) as caught:
            call(tmp_path / out)
        assert caught.value.code == ("disk-full" if number in output.FULL else "unwritable")
        assert out in caught.value.where
        assert caught.value.fix
    assert left(tmp_path) == ["old"]
    assert sha256_tree(tmp_path / "old") == before


def test_an_interrupt_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("edgekit.spec.bundle_writer.sha256_file", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "a")
    assert left(tmp_path) == []


def test_a_missing_content_file(tmp_path):
    with pytest.raises(InputError) as caught:
        write(tmp_path / "a", contents=tiny.nano_contents() | {"extra.bin": tmp_path / "none"})
    assert caught.value.code == "input-missing"
    assert left(tmp_path) == []


@pytest.mark.parametrize("name", ["../evil", "/evil", "manifest.json", "Labels.TXT", "labels.txt/x", ".hidden", "a b", "ä"])
def test_names_that_no_reader_takes(tmp_path, name):
    with pytest.raises(BundleError) as caught:
        write(tmp_path / "a", contents=tiny.nano_contents() | {name: b""})
    assert caught.value.code in ("bundle-path", "bundle-duplicate")
    assert left(tmp_path) == []


@pytest.mark.parametrize("value", [math.nan, math.inf, object()])
def test_values_that_are_no_json(tmp_path, value):
    preprocess = dataclasses.replace(tiny.nano_manifest().preprocess, mean=(value, 0.0, 0.0))
    with pytest.raises(BundleError):
        write(tmp_path / "a", dataclasses.replace(tiny.nano_manifest(), preprocess=preprocess))
    assert left(tmp_path) == []


def test_a_manifest_that_breaks_a_rule(tmp_path):
    contents = tiny.nano_contents()
    del contents["labels.txt"]
    with pytest.raises(BundleError, match=r"labels\.txt"):
        write(tmp_path / "a", contents=contents)
    with pytest.raises(BundleError, match="format 2"):
        write(tmp_path / "a", dataclasses.replace(tiny.nano_manifest(), format=2))
    assert left(tmp_path) == []


def test_a_damaged_bundle_is_not_packed(nano):
    (nano / "labels.txt").write_bytes(b"other")
    with pytest.raises(BundleError):
        pack_zip(nano, nano.with_suffix(".ekb"))
    assert not nano.with_suffix(".ekb").exists()


def test_packing_over_a_folder(nano, tmp_path):
    with pytest.raises(InputError) as caught:
        pack_zip(nano, tmp_path)
    assert caught.value.code == "output-exists"


def test_a_failed_swap_keeps_the_old(tmp_path, monkeypatch):
    """If the new folder cannot take the old one's place, the old one comes back."""
    write(tmp_path / "a")
    before = sha256_tree(tmp_path / "a")
    rename = type(tmp_path).rename

    def fail(self, target):
        if self.name.endswith(".tmp"):
            raise OSError(errno.EIO, "broken")
        return rename(self, target)

    monkeypatch.setattr(type(tmp_path), "rename", fail)
    with pytest.raises(InputError):
        write(tmp_path / "a", dataclasses.replace(tiny.nano_manifest(), provenance={}))
    monkeypatch.undo()
    assert sha256_tree(tmp_path / "a") == before
    assert left(tmp_path) == ["a"]
    shutil.rmtree(tmp_path / "a")

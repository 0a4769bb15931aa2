"""Digests do not depend on time, mode or place, and change with every name and byte."""

import hashlib
import math
import os

import pytest

from edgekit.spec.digest import canonical_json, sha256_bytes, sha256_file, sha256_tree
from edgekit.spec.errors import InputError


def fill(folder, files):
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def test_file_and_bytes(tmp_path):
    data = b"x" * 3_000_000
    (tmp_path / "f").write_bytes(data)
    assert sha256_file(tmp_path / "f") == sha256_bytes(data) == hashlib.sha256(data).hexdigest()


def test_tree_ignores_time_mode_and_place(tmp_path):
    files = {"b/x": b"1", "a": b"2", "b.c": b"3"}
    first, second = fill(tmp_path / "one", files), fill(tmp_path / "deep/two", dict(reversed(files.items())))
    (second / "a").chmod(0o600)
    os.utime(second / "b/x", (1, 1))
    (second / "empty").mkdir()
    assert sha256_tree(first) == sha256_tree(second)


@pytest.mark.parametrize("change", [{"a": b"3"}, {"c": b""}, {"b/y": b"1"}])
def test_tree_sees_every_change(tmp_path, change):
    files = {"b/x": b"1", "a": b"2"}
    assert sha256_tree(fill(tmp_path / "one", files)) != sha256_tree(fill(tmp_path / "two", files | change))


def test_tree_sees_where_bytes_lie(tmp_path):
    """Moving a byte between name and content, or swapping two files, is a change."""
    trees = [{"a": b"b", "c": b"d"}, {"a": b"d", "c": b"b"}, {"ab": b"", "c": b"d"}, {"a\nb": b"b"}, {"a": b"b"}]
    digests = {sha256_tree(fill(tmp_path / str(i), files)) for i, files in enumerate(trees)}
    assert len(digests) == len(trees)


def test_tree_refuses_links_and_files(tmp_path):
    fill(tmp_path / "one", {"a": b"1"})
    with pytest.raises(InputError):
        sha256_tree(tmp_path / "one/a")
    with pytest.raises(InputError):
        sha256_tree(tmp_path / "none")
    (tmp_path / "one/link").symlink_to("a")
    with pytest.raises(InputError, match="link"):
        sha256_tree(tmp_path / "one")


def test_tree_is_frozen(tmp_path):
    """A cache key of an older release must still fit."""
    wanted = hashlib.sha256(f'{sha256_bytes(b"1")}  "a"\n{sha256_bytes(b"2")}  "b/c"\n'.encode()).hexdigest()
    assert sha256_tree(fill(tmp_path / "one", {"a": b"1", "b/c": b"2"})) == wanted


def test_canonical_json():
    assert canonical_json({"b": 1, "a": [1.5, None, True, "ä"]}) == '{"a":[1.5,null,true,"ä"],"b":1}'.encode()
    assert canonical_json({"x": 1, "y": 2}) == canonical_json({"y": 2, "x": 1})


@pytest.mark.parametrize("value", [math.nan, math.inf, b"x", {1, 2}, "\ud800", {"a": 1, 2: 3}])
def test_no_canonical_json(value):
    with pytest.raises(InputError):
        canonical_json(value)

import errno
import os
import shutil
import subprocess
import sys
import textwrap

import pytest

from edgekit.build.artifact import pin
from edgekit.build.store import Store, default_root, full_or_unwritable
from edgekit.spec.errors import InputError, SetupError

KEY = "ab" * 32


def fill(store, key=KEY, text="bytes"):
    with store.begin(key) as work:
        (work.content / "file.bin").write_text(text)
        return work.commit("payload", stage="lower", seconds=1.5)


def test_an_entry_is_found_again_with_its_digest(tmp_path):
    store = Store(tmp_path / "store")
    assert store.get(KEY) is None
    made = fill(store)
    assert store.get(KEY) == made
    assert (made.path / "file.bin").read_text() == "bytes"
    assert os.listdir(tmp_path / "store" / "work") == []


def test_nothing_remains_without_a_commit(tmp_path):
    store = Store(tmp_path)

    def build():
        with store.begin(KEY) as work:
            (work.content / "half").write_text("half")
            raise RuntimeError("stage broke")

    with pytest.raises(RuntimeError, match="stage broke"):
        build()
    assert store.get(KEY) is None
    assert os.listdir(tmp_path / "work") == []


def test_an_entry_is_not_visible_before_its_commit(tmp_path):
    store = Store(tmp_path)
    with store.begin(KEY) as work:
        (work.content / "a").write_text("a")
        assert store.get(KEY) is None
        assert not store.entry(KEY).exists()
        work.commit("payload", stage="lower", seconds=0)
        assert store.get(KEY) is not None


@pytest.mark.parametrize(
    "damage",
    ["missing file", "missing meta", "other bytes", "truncated", "extra file", "bad meta", "no content", "a link", "other kind"],
)
def test_a_damaged_entry_is_a_miss_and_can_be_made_again(tmp_path, damage):
    store = Store(tmp_path)
    path = fill(store).path
    meta = path.parent / "meta.json"
    if damage == "missing file":
        (path / "file.bin").unlink()
    elif damage == "missing meta":
        meta.unlink()
    elif damage == "other bytes":
        (path / "file.bin").write_text("bytez")
    elif damage == "truncated":
        (path / "file.bin").write_text("byte")
    elif damage == "extra file":
        (path / "more").write_text("")
    elif damage == "no content":
        shutil.rmtree(path)
    elif damage == "a link":
        (path / "more").symlink_to(path / "file.bin")
    elif damage == "bad meta":
        meta.write_text("{")
    else:
        meta.write_text(meta.read_text().replace("payload", "paylode"))
    assert store.get(KEY) is None
    assert fill(store) == store.get(KEY)


def test_sweep_removes_what_the_dead_left_and_spares_the_living(tmp_path):
    store = Store(tmp_path)
    program = textwrap.dedent("""
        import sys, time
        from pathlib import Path
        from edgekit.build.store import Store
        with Store(Path(sys.argv[1])).begin(sys.argv[2]) as work:
            (work.content / "half").write_text("half")
            print("ready", flush=True)
            time.sleep(60)
    """)
    keys = "1" * 64, "2" * 64
    processes = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path), key], stdout=subprocess.PIPE, text=True) for key in keys
    ]
    try:
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        processes[0].kill()
        processes[0].wait()
        assert store.sweep() == 1
        assert sorted(os.listdir(tmp_path / "work")) == [keys[1], keys[1] + ".lock"]
        assert (tmp_path / "work" / keys[1] / "content" / "half").exists()
        assert store.sweep() == 0
    finally:
        for process in processes:
            process.kill()
            process.wait()
            process.stdout.close()
    assert store.sweep() == 1
    assert os.listdir(tmp_path / "work") == []


def test_clean_removes_all_entries(tmp_path):
    store = Store(tmp_path)
    fill(store)
    fill(store, "cd" * 32)
    assert store.clean() == 2
    assert store.get(KEY) is None
    assert store.clean() == 0


def test_an_unwritable_store_says_where_and_what_to_do(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    store = Store(tmp_path / "file" / "store")
    with pytest.raises(SetupError) as caught:
        fill(store)
    assert caught.value.code == "store-unwritable"
    assert str(tmp_path / "file") in caught.value.where
    assert "--store" in caught.value.fix


def test_a_full_disk_is_told_apart():
    full = full_or_unwritable(OSError(errno.ENOSPC, "No space left on device"), "/store")
    assert isinstance(full, SetupError)
    assert (full.code, full.where) == ("store-full", "/store")
    assert full_or_unwritable(OSError(errno.EIO, "Input/output error"), "/store") is None


def test_the_default_root_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("EDGEKIT_STORE", str(tmp_path / "mine"))
    assert default_root() == tmp_path / "mine"
    monkeypatch.delenv("EDGEKIT_STORE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert default_root() == tmp_path / "cache" / "edgekit" / "store"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_root() == tmp_path / ".cache" / "edgekit" / "store"


def test_pin_depends_on_content_only(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "photo").write_text("pixels")
    assert pin(tmp_path / "a").digest == pin(tmp_path / "b").digest
    (tmp_path / "b" / "photo").write_text("pixel")
    assert pin(tmp_path / "a").digest != pin(tmp_path / "b").digest
    assert pin(tmp_path / "a" / "photo").digest != pin(tmp_path / "b" / "photo").digest
    with pytest.raises(InputError):
        pin(tmp_path / "none")

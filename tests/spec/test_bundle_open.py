"""Opening: whole bundles give their files, damaged ones give one clear error."""

import json
import os
import random
import subprocess
import sys
import threading
import zipfile

import pytest
import tiny

from edgekit.spec.bundle import open_bundle, pack_zip, write_bundle
from edgekit.spec.errors import BundleError, InputError, SetupError


def test_folder_and_zip_hold_the_same(nano, nano_zip):
    with open_bundle(nano) as folder, open_bundle(nano_zip) as packed:
        assert folder.digest == packed.digest
        assert folder.manifest == packed.manifest
        assert {n: folder.read(n) for n in folder.files} == tiny.nano_contents()
        assert {n: packed.read(n) for n in packed.files} == tiny.nano_contents()


def test_a_file_of_a_zip_lives_until_close(nano_zip):
    bundle = open_bundle(nano_zip)
    path = bundle.file("payloads/network.bin")
    assert path.read_bytes() == tiny.nano_contents()["payloads/network.bin"]
    assert bundle.file("payloads/network.bin") == path
    assert path.parents[1].stat().st_mode & 0o077 == 0
    bundle.close()
    bundle.close()
    assert not path.parents[1].exists()
    with pytest.raises(InputError, match="closed"):
        bundle.read("payloads/network.bin")


def test_a_forgotten_bundle_leaves_no_files(nano_zip):
    bundle = open_bundle(nano_zip)
    path = bundle.file("labels.txt")
    del bundle
    assert not path.exists()


def test_a_file_of_a_folder_is_itself(nano):
    with open_bundle(nano) as bundle:
        assert bundle.file("labels.txt") == (nano / "labels.txt").resolve()


@pytest.mark.parametrize("name", ["", "other.bin", "manifest.json", "../nano/labels.txt", "/etc/passwd"])
def test_only_listed_files_are_read(nano, name):
    with open_bundle(nano) as bundle:
        for call in (bundle.read, bundle.file):
            with pytest.raises(BundleError) as caught:
                call(name)
            assert caught.value.code == "bundle-missing"


def test_every_flipped_byte_of_a_zip_is_refused(nano_zip, tmp_path):
    data, dice = nano_zip.read_bytes(), random.Random(1)
    copy = tmp_path / "copy.ekb"
    for offset in range(len(data)):
        flipped = bytearray(data)
        flipped[offset] ^= 1 << dice.randrange(8)
        copy.write_bytes(flipped)
        with pytest.raises(BundleError):
            open_bundle(copy).close()


def test_every_flipped_byte_of_a_folder_is_refused(nano):
    dice = random.Random(2)
    for path in [p for p in nano.rglob("*") if p.is_file()]:
        data = path.read_bytes()
        for offset in range(len(data)):
            flipped = bytearray(data)
            flipped[offset] ^= 1 << dice.randrange(8)
            path.write_bytes(flipped)
            with pytest.raises(BundleError) as caught:
                open_bundle(nano).close()
            assert caught.value.code == "bundle-hash"
        path.write_bytes(data)
    open_bundle(nano).close()


def test_every_cut_of_a_zip_is_refused(nano_zip, tmp_path):
    data, copy = nano_zip.read_bytes(), tmp_path / "copy.ekb"
    for length in range(0, len(data), 7):
        copy.write_bytes(data[:length])
        with pytest.raises(BundleError) as caught:
            open_bundle(copy).close()
        assert caught.value.code == "bundle-truncated"


def test_a_late_hash_is_still_checked(nano, nano_zip, tmp_path):
    (nano / "payloads/network.bin").write_bytes(tiny.nano_contents()["payloads/network.bin"][::-1])
    data = nano_zip.read_bytes()
    (tmp_path / "late.ekb").write_bytes(data.replace(b"not a network", b"now a network"))
    for path in (nano, tmp_path / "late.ekb"):
        with open_bundle(path, verify_hashes=False) as bundle:
            assert bundle.read("labels.txt")
            for call in (bundle.read, bundle.file):
                with pytest.raises(BundleError) as caught:
                    call("payloads/network.bin")
                assert caught.value.code == "bundle-hash"
            with pytest.raises(BundleError):
                bundle.verify()


def test_links_may_not_leave(nano, tmp_path):
    outside = tmp_path / "outside.txt"
    outside.write_bytes((nano / "labels.txt").read_bytes())
    (nano / "labels.txt").unlink()
    (nano / "labels.txt").symlink_to(outside)
    with pytest.raises(BundleError) as caught:
        open_bundle(nano)
    assert caught.value.code == "bundle-path"


def test_a_linked_folder_is_refused(nano, tmp_path):
    (nano / "tables").rename(tmp_path / "tables")
    (nano / "tables").symlink_to(tmp_path / "tables", target_is_directory=True)
    with pytest.raises(BundleError) as caught:
        open_bundle(nano)
    assert caught.value.code == "bundle-path"


def test_special_files_are_refused(nano):
    os.mkfifo(nano / "pipe")
    with pytest.raises(BundleError) as caught:
        open_bundle(nano)
    assert caught.value.code == "bundle-path"


def test_nothing_there(tmp_path):
    with pytest.raises(BundleError) as caught:
        open_bundle(tmp_path / "none")
    assert caught.value.code == "bundle-not-found"
    with pytest.raises(BundleError) as caught:
        open_bundle(tmp_path)
    assert caught.value.code == "bundle-missing"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_is_no_fault_of_the_bundle(nano):
    (nano / "labels.txt").chmod(0)
    with pytest.raises(SetupError):
        open_bundle(nano)


def test_a_zip_is_read_by_any_program(nano, nano_zip):
    with zipfile.ZipFile(nano_zip) as packed:
        assert packed.testzip() is None
        assert packed.namelist()[:2] == ["manifest.json", "manifest.sha256"]
        assert packed.namelist()[2:] == sorted(packed.namelist()[2:])
        packed.extractall(nano.parent / "unpacked")
    with open_bundle(nano.parent / "unpacked") as unpacked, open_bundle(nano_zip) as bundle:
        assert unpacked.digest == bundle.digest


def test_payloads_are_aligned(nano_zip):
    data = nano_zip.read_bytes()
    for content in tiny.nano_contents().values():
        assert data.index(content) % 64 == 0


def test_threads_share_a_bundle(nano_zip):
    wrong = []
    with open_bundle(nano_zip, verify_hashes=False) as bundle:

        def work():
            for _ in range(50):
                for name, content in tiny.nano_contents().items():
                    if bundle.read(name) != content or bundle.file(name).read_bytes() != content:
                        wrong.append(name)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_a_manifest_that_is_too_large(nano):
    with (nano / "manifest.json").open("ab") as stream:
        stream.truncate((16 << 20) + 1)
    with pytest.raises(BundleError) as caught:
        open_bundle(nano)
    assert caught.value.code == "bundle-size"


def test_opening_is_fast_and_needs_no_libraries(tmp_path):
    """A bundle with long operator lists and 24 MB of payload; a slower machine is given five times the goal of 60 ms."""
    big = tiny.nano_contents() | {"payloads/large.bin": bytes(24 << 20)}
    write_bundle(tiny.nano_manifest(), big, tmp_path / "big")
    pack_zip(tmp_path / "big", tmp_path / "big.ekb")
    script = (
        "import sys, json, time, pathlib\n"
        "from edgekit.spec.bundle import open_bundle\n"
        "seconds = []\n"
        "for late in (False, True):\n"
        "    start = time.perf_counter()\n"
        "    open_bundle(pathlib.Path(sys.argv[1]), verify_hashes=not late)\n"
        "    seconds.append(time.perf_counter() - start)\n"
        "loaded = [m for m in ('jsonschema', 'yaml', 'numpy', 'torch', 'click') if m in sys.modules]\n"
        "print(json.dumps([seconds, loaded]))"
    )
    for name in ("big", "big.ekb"):
        command = [sys.executable, "-I", "-c", script, str(tmp_path / name)]
        seconds, loaded = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        assert loaded == []
        assert seconds[0] < 0.3
        assert seconds[1] < 0.1

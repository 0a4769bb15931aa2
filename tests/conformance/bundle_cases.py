"""Bundles as folders and zips, each bad one wrong in one thing."""

import hashlib
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import tiny
from text_cases import text_contents, text_manifest
from zip_cases import Member, deflated, raw_zip

from edgekit.spec.bundle import pack_zip, write_bundle

SUM, MANIFEST = "manifest.sha256", "manifest.json"
PAYLOAD, LABELS = "payloads/network.bin", "labels.txt"


def write_bundles(out: Path) -> list[dict]:
    """Write all bundles below `out/bundles` and list what a reader must say of each."""
    root = out / "bundles"
    root.mkdir()
    digests = {}
    for name, manifest, contents in (
        ("nano", tiny.nano_manifest(), tiny.nano_contents()),
        ("tiny", tiny.tiny_manifest(), tiny.tiny_contents()),
        ("text", text_manifest(), text_contents()),
    ):
        digests[name] = write_bundle(manifest, contents, root / name)
        pack_zip(root / name, root / f"{name}.ekb")
    items = [
        _item(f"{name}{suffix}", f"a whole bundle as {kind}", None, digest)
        for name, digest in digests.items()
        for suffix, kind in (("", "a folder"), (".ekb", "a zip"))
    ]
    for name, why, error, change in FOLDERS:
        shutil.copytree(root / "nano", root / name)
        change(root / name)
        items.append(_item(name, why, error))
    zipped = (root / "nano.ekb").read_bytes()
    members = [Member(path, (root / "nano" / path).read_bytes()) for path in _order(root / "nano")]
    for name, why, error, data in _zips(zipped, members):
        (root / f"{name}.ekb").write_bytes(data)
        items.append(_item(f"{name}.ekb", why, error))
    return items


def _item(name: str, why: str, error: str | None, digest: str | None = None) -> dict:
    return {"name": name, "why": why, "path": f"bundles/{name}", "error": error, "digest": digest}


def _order(folder: Path) -> list[str]:
    names = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    return [MANIFEST, SUM, *(n for n in names if n not in (MANIFEST, SUM))]


def flip(data: bytes, offset: int) -> bytes:
    """One bit of the byte at `offset` turned."""
    return data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :]


def _replace(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes())) and None


def _manifest(old: str, new: str) -> Callable[[Path], None]:
    """Another manifest, with the right sum: what a tamperer would write."""

    def change(folder: Path) -> None:
        data = (folder / MANIFEST).read_bytes()
        changed = data.replace(old.encode(), new.encode())
        if changed == data:
            raise ValueError(f"{old!r} does not occur in the manifest")
        (folder / MANIFEST).write_bytes(changed)
        digest = hashlib.sha256(changed).hexdigest()
        (folder / SUM).write_text(f"{digest}  {MANIFEST}\n", encoding="ascii", newline="\n")

    return change


def _other_digests(folder: Path) -> None:
    """All digests changed in the manifest, and its own sum made right."""
    digests = re.findall(r'"sha256": "([0-9a-f]{64})"', (folder / MANIFEST).read_text(encoding="utf-8"))
    for digest in digests:
        _manifest(digest, digest[::-1])(folder)


FOLDERS: tuple[tuple[str, str, str, Callable[[Path], None]], ...] = (
    ("payload-flipped", "one bit of the payload", "bundle-hash", _replace(PAYLOAD, lambda d: flip(d, 20))),
    (
        "manifest-flipped",
        "one bit of a name: still a valid manifest",
        "bundle-hash",
        _replace(MANIFEST, lambda d: d.replace(b"tiny", b"tinx")),
    ),
    ("sum-flipped", "one bit of the manifest's sum", "bundle-hash", _replace(SUM, lambda d: flip(d, 3))),
    ("payload-truncated", "the payload's last byte is missing", "bundle-size", _replace(PAYLOAD, lambda d: d[:-1])),
    ("payload-grown", "a byte follows the payload", "bundle-size", _replace(PAYLOAD, lambda d: d + b"\0")),
    ("payload-missing", "no payload", "bundle-missing", lambda f: (f / PAYLOAD).unlink()),
    ("manifest-missing", "no manifest", "bundle-missing", lambda f: (f / MANIFEST).unlink()),
    ("sum-missing", "no sum of the manifest", "bundle-missing", lambda f: (f / SUM).unlink()),
    (
        "unlisted",
        "a file that the manifest does not name",
        "bundle-unlisted",
        lambda f: (f / "extra.bin").write_bytes(b"?") and None,
    ),
    ("format-2", "a format of the future", "bundle-format", _manifest('"format": 1', '"format": 2')),
    (
        "traversal",
        "the manifest names a file outside",
        "bundle-path",
        _manifest('"path": "labels.txt"', '"path": "../nano/labels.txt"'),
    ),
    ("digest-changed", "the manifest has another digest for a file", "bundle-hash", _other_digests),
)


def _zips(zipped: bytes, members: list[Member]) -> list[tuple[str, str, str, bytes]]:
    payload = next(m for m in members if m.name == PAYLOAD)
    others = [m for m in members if m is not payload]
    twice = [*members, Member(PAYLOAD, payload.data)]
    return [
        ("payload-flipped", "one bit of the payload", "bundle-hash", flip(zipped, zipped.index(payload.data) + 20)),
        ("manifest-flipped", "one bit of the manifest", "bundle-hash", flip(zipped, zipped.index(b"tiny"))),
        ("header-flipped", "one bit of an entry's time", "bundle-zip", flip(zipped, 10)),
        ("directory-flipped", "one bit of a CRC in the directory", "bundle-zip", flip(zipped, zipped.index(b"PK\x01\x02") + 16)),
        ("truncated", "the last 100 bytes are missing", "bundle-truncated", zipped[:-100]),
        ("truncated-in-payload", "the last half is missing", "bundle-truncated", zipped[: len(zipped) // 2]),
        ("empty", "no byte", "bundle-truncated", b""),
        ("trailing", "bytes follow the zip", "bundle-truncated", zipped + b"\0" * 8),
        ("leading", "bytes before the zip", "bundle-zip", b"\0" * 8 + zipped),
        ("not-a-zip", "a text", "bundle-zip", b"This is a text and not a bundle of any kind.\n"),
        ("compressed", "a compressed payload", "bundle-zip-compressed", raw_zip([*others, deflated(PAYLOAD, payload.data)])),
        (
            "oversized",
            "an entry that claims more than there is",
            "bundle-zip-size",
            raw_zip([*others, Member(PAYLOAD, payload.data, size=1 << 30)]),
        ),
        ("duplicate", "an entry twice", "bundle-duplicate", raw_zip(twice)),
        (
            "duplicate-case",
            "two entries that differ by case",
            "bundle-duplicate",
            raw_zip([*members, Member(LABELS.upper(), b"x")]),
        ),
        ("traversal", "an entry that leaves the bundle", "bundle-path", raw_zip([*members, Member("../evil", b"x")])),
        ("absolute", "an absolute entry", "bundle-path", raw_zip([*members, Member("/tmp/evil", b"x")])),
        ("encrypted", "the flag of encryption", "bundle-zip", raw_zip([*others, Member(PAYLOAD, payload.data, flags=1)])),
        ("folder-entry", "an entry for a folder", "bundle-zip", raw_zip([*members, Member("payloads/", b"")])),
        ("other-writer", "stored, but not in the one form", "bundle-zip", raw_zip(members, when=0x5A21)),
        ("comment", "a comment at the end", "bundle-truncated", raw_zip(members, comment=b"hello")),
        ("no-manifest", "an empty zip", "bundle-zip", raw_zip([])),
    ]

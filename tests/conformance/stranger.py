"""A reader written from docs/bundle-format.md alone: standard library, nothing of edgekit. It proves that the page is enough.

It checks the container, the digests and the schema-free part of the manifest that it needs, and resizes by the book.
"""

import hashlib
import json
import math
import re
import struct
import zlib
from pathlib import Path

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*")
FIRST = ["manifest.json", "manifest.sha256"]


class Refused(Exception):  # noqa: N818
    """The bundle must not be used."""


def read(path: Path) -> dict[str, bytes]:
    """All files of a bundle, checked; sections 1 to 3."""
    files = read_folder(path) if path.is_dir() else read_ekb(path.read_bytes())
    manifest = files.get("manifest.json", b"")
    digest = hashlib.sha256(manifest).hexdigest()
    must(files.get("manifest.sha256") == f"{digest}  manifest.json\n".encode(), "manifest.sha256")
    values = json.loads(manifest)
    must(values["format"] == 1, "format")
    listed = {f["path"]: f for f in values["files"]}
    names = [*FIRST, *(f["path"] for f in values["files"])]
    must(all(NAME.fullmatch(n) and len(n) <= 200 for n in names), "names")
    must(len({n.lower() for n in names}) == len(names), "names twice")
    must(set(files) == {*names}, "unlisted or missing")
    for name, entry in listed.items():
        must(len(files[name]) == entry["size_bytes"], "size")
        must(hashlib.sha256(files[name]).hexdigest() == entry["sha256"], "digest")
    return files


def must(ok: bool, what: str) -> None:
    """Refuse unless `ok`."""
    if not ok:
        raise Refused(what)


def read_folder(path: Path) -> dict[str, bytes]:
    """Section 1."""
    return {p.relative_to(path).as_posix(): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def read_ekb(data: bytes) -> dict[str, bytes]:
    """Section 2: take names, CRCs and sizes, build all headers from them, compare."""
    must(len(data) >= 22, "too short")
    magic, _, _, count, _, size, start, _ = struct.unpack("<IHHHHIIH", data[-22:])
    must(magic == 0x06054B50 and start + size + 22 == len(data), "end record")
    entries, at = [], start
    for _ in range(count):
        must(at + 46 <= len(data), "central directory")
        fields = struct.unpack("<IHHHHHHIIIHHHHHII", data[at : at + 46])
        crc, length, n = fields[7], fields[9], fields[10]
        entries.append((data[at + 46 : at + 46 + n], crc, length))
        at += 46 + n
    names = [name.decode("ascii", "replace") for name, _, _ in entries]
    must(all(NAME.fullmatch(n) and len(n) <= 200 for n in names), "names")
    must(names[:2] == FIRST and names[2:] == sorted(set(names[2:])), "order")
    built, central, files = b"", b"", {}
    for name, crc, length in entries:
        p = -(len(built) + 30 + len(name)) % 64
        p += 64 if 1 <= p <= 5 else 0
        extra = struct.pack("<HHH", 0xD935, p - 4, 64) + bytes(p - 6) if p else b""
        common = struct.pack("<HHHHHIIIH", 10, 0, 0, 0, 0x21, crc, length, length, len(name))
        central += struct.pack("<IH", 0x02014B50, 0x031E) + common
        central += struct.pack("<HHHHII", 0, 0, 0, 0, 0x81A40000, len(built)) + name
        built += struct.pack("<I", 0x04034B50) + common + struct.pack("<H", len(extra)) + name + extra
        content = data[len(built) : len(built) + length]
        must(len(content) == length and zlib.crc32(content) == crc, "data")
        files[name.decode()] = content
        built += content
    built += central + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, count, count, len(central), len(built), 0)
    must(built == data, "another form")
    return files


def bilinear(x: float) -> float:
    """Section 5."""
    x = abs(x)
    return 1 - x if x < 1 else 0.0


def bicubic(x: float) -> float:
    """Section 5."""
    x, a = abs(x), -0.5
    if x < 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return (((x - 5) * x + 8) * x - 4) * a if x < 2 else 0.0


def resize_line(line: list[int], m: int, name: str) -> list[int]:
    """`n` values -> `m` values; section 5."""
    n = len(line)
    if n == m:
        return line
    reach, kernel = (1.0, bilinear) if name == "bilinear" else (2.0, bicubic)
    scale = n / m
    stretch = max(scale, 1.0)
    support, inverse = reach * stretch, 1.0 / stretch
    result = []
    for i in range(m):
        center = (i + 0.5) * scale
        first = max(0, math.trunc(center - support + 0.5))
        last = min(n, math.trunc(center + support + 0.5))
        w = [kernel((j + first - center + 0.5) * inverse) for j in range(last - first)]
        total = 0.0
        for value in w:
            total = total + value
        w = [value / total if total != 0 else value for value in w]
        k = [math.trunc(v * 4194304.0 + (-0.5 if v < 0 else 0.5)) for v in w]
        result.append(min(max((2097152 + sum(a * b for a, b in zip(k, line[first:last], strict=True))) >> 22, 0), 255))
    return result


def prepare(pixels: list[list[int]], s: int, r: int, name: str) -> list[list[int]]:
    """Rows of one channel -> the crop that the network sees; section 5."""
    height, width = len(pixels), len(pixels[0])
    short, long = min(width, height), max(width, height)
    other = (long * s + short // 2) // short
    new_width, new_height = (s, other) if width <= height else (other, s)
    rows = [resize_line(row, new_width, name) for row in pixels]
    columns = [resize_line([row[x] for row in rows], new_height, name) for x in range(new_width)]
    left, top = (new_width - r) // 2, (new_height - r) // 2
    return [[columns[x][y] for x in range(left, left + r)] for y in range(top, top + r)]


def climb(case: dict) -> tuple[int, float, str, list]:
    """Section 8: a case of `ladder.json` -> index of the rung, margin, why it stopped, what each rung took."""
    used, takes = case["used_ms"], []
    last = len(case["min_margins"]) - 1
    for i, logits in enumerate(case["logits"]):
        takes.append(i - 1 if case["continues"][i] else None)
        used = used + case["took_ms"][i]
        best = max(logits)
        rest = [logits[j] for j in range(len(logits)) if j != logits.index(best)]
        margin = best - max(rest) if rest else 0
        enough, other = case["min_margins"][i], case["margins"][i]
        if other is not None and case["floor"] != "balanced":
            enough = other[0] if case["floor"] == "accurate" else other[1]
        if i == last:
            return i, margin, "last", takes
        if margin >= enough:
            return i, margin, "margin", takes
        if case["ceiling_ms"] is not None and used + (case["expected_ms"][i + 1] or 0) > case["ceiling_ms"]:
            return i, margin, "ceiling", takes
    raise Refused("no rung")

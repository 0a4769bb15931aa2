"""The `.ekb` file: a stored zip with exactly one form, so that equal bundles are equal files and every byte is checked.

Any unzip program opens it. Its headers follow from the names, sizes and CRCs of its entries: the reader rebuilds them and
compares, so that no header field can be read in two ways.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from edgekit.spec.errors import BundleError
from edgekit.spec.names import MANIFEST, MANIFEST_SUM, RESERVED, check_names

__all__ = ["ALIGNMENT_BYTES", "SIZE_MAX_BYTES", "TAIL", "Slot", "layout", "parse_directory", "parse_tail"]

ALIGNMENT_BYTES = 64
SIZE_MAX_BYTES = 2**32 - 2
ENTRIES_MAX = 65534
LOCAL = struct.Struct("<IHHHHHIIIHH")
CENTRAL = struct.Struct("<IHHHHHHIIIHHHHHII")
TAIL = struct.Struct("<IHHHHIIH")
LOCAL_MAGIC, CENTRAL_MAGIC, TAIL_MAGIC = 0x04034B50, 0x02014B50, 0x06054B50
VERSION, MADE_BY_UNIX, DATE_1980 = 10, 0x031E, 0x0021
MODE_FILE_644 = 0o100644 << 16
ALIGNMENT_EXTRA = struct.Struct("<HHH")
ALIGNMENT_EXTRA_ID = 0xD935
"""The extra field by which Android's tools mark padding."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One entry: name, CRC-32 and size of its data; where its header and its data start."""

    name: str
    crc: int
    size_bytes: int
    header: bytes = b""
    header_offset: int = 0

    @property
    def data_offset(self) -> int:
        """First byte of the data; a multiple of 64."""
        return self.header_offset + len(self.header)


def layout(slots: list[Slot]) -> tuple[list[Slot], bytes]:
    """Entries -> the same with headers and offsets, in file order, and the bytes after the last entry's data."""
    placed, central, offset = [], b"", 0
    for slot in sorted(slots, key=lambda s: (_rank(s.name), s.name)):
        name = slot.name.encode("ascii")
        extra = _padding(offset + LOCAL.size + len(name))
        common = (VERSION, 0, 0, 0, DATE_1980, slot.crc, slot.size_bytes, slot.size_bytes, len(name))
        header = LOCAL.pack(LOCAL_MAGIC, *common, len(extra)) + name + extra
        placed.append(Slot(slot.name, slot.crc, slot.size_bytes, header, offset))
        central += CENTRAL.pack(CENTRAL_MAGIC, MADE_BY_UNIX, *common, 0, 0, 0, 0, MODE_FILE_644, offset) + name
        offset += len(header) + slot.size_bytes
    tail = TAIL.pack(TAIL_MAGIC, 0, 0, len(placed), len(placed), len(central), offset, 0)
    return placed, central + tail


def parse_tail(tail: bytes, size_bytes: int, *, where: str) -> tuple[int, int, int]:
    """The last 22 bytes of a file of `size_bytes` -> (entries, start of the central directory, its size).

    Raises:
        BundleError: `bundle-truncated` or `bundle-zip`.
    """
    if len(tail) < TAIL.size or int.from_bytes(tail[:4], "little") != TAIL_MAGIC:
        raise BundleError(
            "the end of the zip is missing, or something follows it",
            where=where,
            fix="the copy was cut off: copy or download it again",
            code="bundle-truncated",
        )
    _, disk, start_disk, here, total, size, start, comment = TAIL.unpack(tail)
    if disk or start_disk or comment or here != total or here > ENTRIES_MAX:
        raise _not_canonical("the end record", where)
    if start + size + TAIL.size != size_bytes:
        raise BundleError(
            f"the zip says {start + size + TAIL.size} bytes, the file has {size_bytes}",
            where=where,
            fix="the copy was cut off: copy or download it again",
            code="bundle-truncated",
        )
    return total, start, size


def parse_directory(central: bytes, count: int, start: int, *, where: str) -> list[Slot]:
    """Central directory that starts at byte `start` -> entries with headers and offsets, in file order.

    Raises:
        BundleError: `bundle-zip-compressed`, `bundle-zip-size`, `bundle-path`, `bundle-duplicate` or `bundle-zip`.
    """
    slots = list(_entries(central, count, start, where))
    check_names([s.name for s in slots], where=where)
    placed, after = layout(slots)
    if [s.name for s in placed] != [s.name for s in slots] or after[: -TAIL.size] != central:
        raise _not_canonical("the central directory", where)
    return placed


def _entries(central: bytes, count: int, start: int, where: str) -> Iterator[Slot]:
    at = 0
    for _ in range(count):
        if at + CENTRAL.size > len(central):
            raise _not_canonical("the central directory", where)
        fields = CENTRAL.unpack_from(central, at)
        magic, _, _, _, method, _, _, crc, stored, size, name_length, extra, comment = fields[:13]
        raw = central[at + CENTRAL.size : at + CENTRAL.size + name_length]
        at += CENTRAL.size + name_length + extra + comment
        if magic != CENTRAL_MAGIC or len(raw) != name_length or not raw.isascii():
            raise _not_canonical("the central directory", where)
        name = raw.decode("ascii")
        if method != 0:
            raise BundleError(
                f"entry {name!r} is compressed",
                where=where,
                fix="store it: zip -0, or pack with edgekit",
                code="bundle-zip-compressed",
            )
        if stored != size or size > start:
            raise BundleError(
                f"entry {name!r} claims {size} bytes and stores {stored}, in a file of {start} bytes of entries",
                where=where,
                fix="copy or download it again",
                code="bundle-zip-size",
            )
        if name.endswith("/"):
            raise _not_canonical(f"folder entry {name!r}", where)
        yield Slot(name, crc, size)


def _padding(offset: int) -> bytes:
    """Extra field after a name that ends at `offset`, so that the data starts at a multiple of 64."""
    pad = -offset % ALIGNMENT_BYTES
    if pad and pad < ALIGNMENT_EXTRA.size:
        pad += ALIGNMENT_BYTES
    if not pad:
        return b""
    fill = pad - ALIGNMENT_EXTRA.size
    return ALIGNMENT_EXTRA.pack(ALIGNMENT_EXTRA_ID, 2 + fill, ALIGNMENT_BYTES) + bytes(fill)


def _rank(name: str) -> int:
    return RESERVED.index(name) if name in (MANIFEST, MANIFEST_SUM) else len(RESERVED)


def _not_canonical(what: str, where: str) -> BundleError:
    return BundleError(
        f"{what} is damaged or was written by another program",
        where=where,
        fix="copy it again; or unpack it with any unzip and open the folder",
        code="bundle-zip",
    )

"""Zip files byte by byte, so that they can be wrong in one thing at a time."""

import struct
import zlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Member:
    """An entry as it shall be written; `stored` is what lies in the file, `size` what the headers claim."""

    name: str
    data: bytes
    method: int = 0
    flags: int = 0
    stored: bytes | None = None
    size: int | None = None


def deflated(name: str, data: bytes) -> Member:
    """A compressed entry; made by hand as one stored block, because compressors differ between versions."""
    block = b"\x01" + struct.pack("<HH", len(data), len(data) ^ 0xFFFF) + data
    return Member(name, data, method=8, stored=block)


def raw_zip(members: list[Member], comment: bytes = b"", when: int = 0x21) -> bytes:
    """A zip as simple programs write it: no padding, headers as they come."""
    body, central = b"", b""
    for member in members:
        stored = member.data if member.stored is None else member.stored
        size = len(member.data) if member.size is None else member.size
        packed = len(stored) if member.size is None else member.size
        name = member.name.encode()
        common = struct.pack(
            "<HHHHHIIIH", 10, member.flags, member.method, 0, when, zlib.crc32(member.data), packed, size, len(name)
        )
        central += b"PK\x01\x02" + struct.pack("<H", 0x031E) + common
        central += struct.pack("<HHHHII", 0, 0, 0, 0, 0o100644 << 16, len(body)) + name
        body += b"PK\x03\x04" + common + struct.pack("<H", 0) + name + stored
    tail = struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(central), len(body), len(comment))
    return body + central + b"PK\x05\x06" + tail + comment

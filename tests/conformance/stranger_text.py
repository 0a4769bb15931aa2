"""WordPiece written from docs/bundle-format.md, section 11, alone: standard library, nothing of edgekit but its table as data."""

import ast
import re
import unicodedata
from pathlib import Path

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def classes_of(file: Path) -> dict[str, set[int]]:
    """Name of a class -> its code points, read from the table's text without running it."""
    found = {}
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(value := ast.literal_eval(node.value), str):
            found[node.targets[0].id] = points(value)
    return found


def points(ranges: str) -> set[int]:
    """Hexadecimal ranges, both ends included."""
    found = set()
    for item in ranges.split():
        low, _, high = item.partition("-")
        found |= set(range(int(low, 16), int(high or low, 16) + 1))
    return found


def wordpiece(text: str, flags: dict[str, bool], *, ids: dict[str, int], classes: dict[str, set[int]]) -> list[int]:
    """All ids of a text; the numbers are those of the page."""
    found = [ids["[CLS]"]]
    for part in re.split("(" + "|".join(re.escape(s) for s in SPECIAL if s in ids) + ")", text):  # 1
        if part in SPECIAL and part in ids:
            found.append(ids[part])
            continue
        for word in words(part, flags, classes):
            found += pieces(word, ids)
    return [*found, ids["[SEP]"]]  # 6


def words(part: str, flags: dict[str, bool], classes: dict[str, set[int]]) -> list[str]:
    part = "".join(" " if ord(c) in classes["SPACES"] else c for c in part if ord(c) not in classes["REMOVED"])  # 2
    if flags["chinese_chars"]:  # 3
        part = "".join(f" {c} " if ord(c) in classes["CHINESE"] else c for c in part)
    if flags["strip_accents"]:
        part = "".join(c for c in unicodedata.normalize("NFD", part) if ord(c) not in classes["MARKS"])
    if flags["lower_case"]:
        part = "".join(c.lower() for c in part)
    return "".join(f" {c} " if ord(c) in classes["PUNCTUATION"] else c for c in part).split(" ")  # 4


def pieces(word: str, ids: dict[str, int]) -> list[int]:
    if len(word) > 100:  # 5
        return [ids["[UNK]"]]
    found, start = [], ""
    while word:
        length = next((n for n in range(len(word), 0, -1) if start + word[:n] in ids), 0)
        if not length:
            return [ids["[UNK]"]]
        found.append(ids[start + word[:length]])
        word, start = word[length:], "##"
    return found

"""Read `labels.csv`: which file is of which class."""

import csv
from collections.abc import Sequence
from pathlib import Path

from edgekit.spec.errors import InputError

__all__ = ["read_labels"]

# In order of preference; names of headers in lower case.
_FILE_COLUMNS = ("file", "filename", "path", "image", "photo")
_INDEX_COLUMNS = ("imagenet_class_index", "class_index", "index", "label", "class")

_FIX = "header `file,class_index`, then one line a photo: path from this folder, index of the class"


def read_labels(table: Path) -> tuple[tuple[Path, ...], tuple[int | None, ...], tuple[str, ...]]:
    """`labels.csv` -> (files, class indices, class names).

    A class column of numbers holds indices of the network's classes and gives no names; one of words gives names, numbered
    in alphabetical order.
    """
    try:
        with table.open(newline="", encoding="utf-8-sig") as stream:
            rows = [row for row in csv.reader(stream) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"labels.csv cannot be read: {error}", where=str(table), fix=_FIX, code="data-labels") from None
    if len(rows) < 2:
        raise InputError("labels.csv lists no photo", where=str(table), fix=_FIX, code="data-labels")
    file_at, class_at = _column(rows[0], _FILE_COLUMNS, table), _column(rows[0], _INDEX_COLUMNS, table)
    files, classes = [], []
    for line, row in enumerate(rows[1:], start=2):
        if max(file_at, class_at) >= len(row):
            raise InputError(
                f"row with {len(row)} of {len(rows[0])} cells", where=f"{table}:{line}", fix=_FIX, code="data-labels"
            )
        files.append(table.parent / row[file_at].strip())
        classes.append(row[class_at].strip())
    order = sorted(range(len(files)), key=lambda i: files[i].as_posix())
    indices, names = _number(classes)
    return tuple(files[i] for i in order), tuple(indices[i] for i in order), names


def _column(header: Sequence[str], wanted: Sequence[str], table: Path) -> int:
    lower = [cell.strip().lower() for cell in header]
    for name in wanted:
        if name in lower:
            return lower.index(name)
    raise InputError(
        f"no column {' or '.join(wanted)} in {', '.join(header)!r}", where=f"{table}:1", fix=_FIX, code="data-labels"
    )


def _number(classes: Sequence[str]) -> tuple[list[int], tuple[str, ...]]:
    if all(c.isascii() and c.isdigit() for c in classes):
        return [int(c) for c in classes], ()
    names = tuple(sorted(set(classes)))
    return [names.index(c) for c in classes], names

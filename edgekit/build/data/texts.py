"""Texts for training and for judging: a CSV with a column `text` and one of classes, or a folder with two of them."""

import codecs
import csv
import dataclasses
import hashlib
import io
from collections.abc import Sequence
from pathlib import Path

from edgekit.build.data.dataset import Dataset, Sample, draw
from edgekit.build.data.splits import TRAIN, VALIDATION, divided
from edgekit.spec.errors import InputError

__all__ = ["TextParts", "Texts", "open_text_splits", "open_texts", "text_split_files"]

_TEXT_COLUMNS = ("text",)
_CLASS_COLUMNS = ("label", "category")
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_FIX = "give a CSV in UTF-8 with the columns `text` and `label` (or `category`), or a folder with train.csv and validation.csv"


@dataclasses.dataclass(frozen=True, slots=True)
class Texts:
    """Texts in a fixed order.

    Attributes:
        name: what to call it in messages: the path that was opened.
        texts: as written, never empty.
        labels: class index of each; None where nobody says.
        classes: name of each class index; empty without labels.
        skipped: rows that held no text.
    """

    name: str
    texts: tuple[str, ...]
    labels: tuple[int, ...] | None = None
    classes: tuple[str, ...] = ()
    skipped: int = 0

    def __len__(self) -> int:
        """Number of texts."""
        return len(self.texts)

    @property
    def digest(self) -> str:
        """SHA-256 over texts, labels and their order; where the file lies does not matter."""
        total = hashlib.sha256()
        for i, text in enumerate(self.texts):
            label = None if self.labels is None else self.labels[i]
            total.update(f"{hashlib.sha256(text.encode()).hexdigest()} {label}\n".encode())
        return total.hexdigest()

    def without_labels(self) -> "Texts":
        """The same texts, of which nobody says what they mean."""
        return dataclasses.replace(self, labels=None, classes=())

    def with_classes(self, classes: tuple[str, ...]) -> "Texts":
        """The same texts with the class indices of `classes`, among which all of its own must be."""
        if self.labels is None:
            return dataclasses.replace(self, classes=classes)
        index = [classes.index(name) for name in self.classes]
        return dataclasses.replace(self, labels=tuple(index[label] for label in self.labels), classes=classes)

    def chosen(self, places: Sequence[int]) -> "Texts":
        """Those at `places`, in that order."""
        labels = None if self.labels is None else tuple(self.labels[i] for i in places)
        return dataclasses.replace(self, texts=tuple(self.texts[i] for i in places), labels=labels)

    def take(self, n: int, seed: int = 0) -> "Texts":
        """At most `n` texts, the same for the same seed, spread evenly over the classes."""
        return self.chosen(sorted(draw(self._marks, seed)[:n]))

    def split(self, n: int, seed: int = 0) -> tuple["Texts", "Texts"]:
        """(n texts, all others): both hold the classes in the proportions of the whole, by the draw that cuts photos."""
        marks = Dataset(self.name, tuple(Sample(i, "", label) for i, label in enumerate(self._marks)))
        inside, outside = marks.split(n, seed)
        return tuple(self.chosen([int(s.source) for s in part.samples]) for part in (inside, outside))  # type: ignore[return-value, arg-type]

    @property
    def _marks(self) -> tuple[int | None, ...]:
        return (None,) * len(self.texts) if self.labels is None else self.labels


@dataclasses.dataclass(frozen=True, slots=True)
class TextParts:
    """Three disjoint sets.

    Attributes:
        fit: to train on.
        tune: to decide on: when to stop, what to repair, what to promise.
        report: to report on, and nothing else.
    """

    fit: Texts
    tune: Texts
    report: Texts


def text_split_files(path: Path) -> tuple[Path, Path] | None:
    """(training CSV, validation CSV) if `path` is a folder that holds both, else None."""
    if not path.is_dir():
        return None
    found = [next((path / f"{n}.csv" for n in names if (path / f"{n}.csv").is_file()), None) for names in (TRAIN, VALIDATION)]
    return (found[0], found[1]) if found[0] is not None and found[1] is not None else None


def open_texts(path: Path, *, labelled: bool = True) -> Texts:
    """Read one CSV; rows without text are skipped and counted.

    Classes are numbered in alphabetical order of their names, numbers among themselves by size.

    Args:
        path: the CSV, or a folder that holds nothing but one CSV.
        labelled: whether a column of classes must be there; without it, one that is there is not looked at.

    Raises:
        InputError: `data` (not there), `data-text` (not UTF-8, no CSV, a class missing), `data-columns`, `data-empty`,
            `one-class`.
    """
    file = _the_file(Path(path))
    rows = _rows(file)
    text_at = _column(rows[0][1], _TEXT_COLUMNS, file)
    class_at = _column(rows[0][1], _CLASS_COLUMNS, file) if labelled else text_at
    texts, names, skipped = [], [], 0
    for line, row in rows[1:]:
        cells = [row[at].strip() if at < len(row) else "" for at in (text_at, class_at)]
        if not cells[0]:
            skipped += 1
            continue
        if not cells[1]:
            raise InputError(
                "a text without a class", where=f"{file}:{line}", fix="name its class, or remove it", code="data-text"
            )
        texts.append(row[text_at])
        names.append(cells[1])
    if not texts:
        told = f"no text in {skipped} rows" if skipped else "a header and no row"
        raise InputError(f"the CSV holds {told}", where=str(file), fix=_FIX, code="data-empty")
    if not labelled:
        return Texts(str(path), tuple(texts), skipped=skipped)
    classes = _ordered(set(names))
    if len(classes) == 1:
        raise InputError(
            f"all {len(texts)} texts are of one class, {classes[0]!r}: there is nothing to tell apart",
            where=str(file),
            fix="add texts of other classes",
            code="one-class",
        )
    index = {name: i for i, name in enumerate(classes)}
    return Texts(str(path), tuple(texts), tuple(index[name] for name in names), classes, skipped)


def open_text_splits(path: Path, *, seed: int, trains: bool) -> TextParts:
    """Open the user's texts as three sets, the same for the same seed and in the shares of `open_splits` for photos.

    Args:
        path: a folder with `train.csv` and `validation.csv`, or what `open_texts` takes.
        seed: of the choice.
        trains: whether the network is trained on these texts; if not, `validation` is halved to decide and to report.

    Raises:
        InputError: see `open_texts`; `data-classes` (a class in validation that train does not have), `data-few`.
    """
    path = Path(path)
    both = text_split_files(path)
    if both is None:
        return TextParts(*divided(open_texts(path), None, seed=seed, trains=trains, what="texts", path=path))
    train, validation = open_texts(both[0]), open_texts(both[1])
    validation = _with_classes(validation, train.classes, where=both[1])
    return TextParts(*divided(train, validation, seed=seed, trains=trains, what="texts", path=path))


def _the_file(path: Path) -> Path:
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix.lower() == ".csv" and p.is_file())
        if len(files) == 1:
            return files[0]
        told = f"{len(files)} CSV files ({', '.join(f.name for f in files[:3])})" if files else "no CSV file"
        raise InputError(f"{told} in the data folder", where=str(path), fix=_FIX, code="data")
    if not path.is_file():
        raise InputError("data not found", where=str(path), fix=_FIX, code="data")
    return path


def _rows(file: Path) -> list[tuple[int, list[str]]]:
    """(line, cells) of every row but blank ones, the header first."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise InputError(
            f"data cannot be read: {error.strerror}", where=str(file), fix="check the file's permissions", code="data"
        ) from None
    try:
        reader = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""))
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(
            f"not UTF-8: byte 0x{data[error.start]:02x} in line {line}",
            where=f"{file}:{line}",
            fix=f"save the file as UTF-8 (iconv -f {'utf16' if data[:2] in _UTF16 else 'latin1'} -t utf8)",
            code="data-text",
        ) from None
    rows, begun = [], 1
    try:
        for row in reader:
            rows.append((begun, row))
            begun = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"no CSV: {error}", where=f"{file}:{reader.line_num}", fix=_FIX, code="data-text") from None
    if not any(row for _, row in rows):
        raise InputError("the file is empty", where=str(file), fix=_FIX, code="data-empty")
    first = next(i for i, (_, row) in enumerate(rows) if row)
    return rows[first:]


def _column(header: Sequence[str], wanted: Sequence[str], file: Path) -> int:
    lower = [cell.strip().lower() for cell in header]
    for name in wanted:
        if name in lower:
            return lower.index(name)
    found = ", ".join(cell.strip()[:40] for cell in header[:8])
    raise InputError(
        f"no column {' or '.join(wanted)}; found: {found}",
        where=f"{file}:1",
        fix="separate the columns by commas" if len(header) == 1 and any(c in header[0] for c in ";\t") else _FIX,
        code="data-columns",
    )


def _ordered(names: set[str]) -> tuple[str, ...]:
    if all(name.isascii() and name.isdigit() for name in names):
        return tuple(sorted(names, key=int))
    return tuple(sorted(names))


def _with_classes(texts: Texts, classes: tuple[str, ...], *, where: Path) -> Texts:
    strange = [name for name in texts.classes if name not in classes]
    if strange:
        raise InputError(
            f"classes that the training texts do not have: {', '.join(strange[:5])}{' ...' if len(strange) > 5 else ''}",
            where=str(where),
            fix="use the same classes in both files",
            code="data-classes",
        )
    return texts.with_classes(classes)

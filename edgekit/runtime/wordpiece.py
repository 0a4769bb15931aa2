"""BERT's WordPiece without a library: from a text to token ids, as `tokenizers` gives them.

Devlin et al. 2018 (arXiv 1810.04805), as released in google-research/bert `tokenization.py`; where the `tokenizers` library
differs, it is followed, since networks are trained with its ids. docs/bundle-format.md, section 11, says the same in words.
"""

import bisect
import functools
import re
import unicodedata
from collections.abc import Mapping

from edgekit.runtime.wordpiece_tables import CHINESE, MARKS, PUNCTUATION, REMOVED, SPACES
from edgekit.spec.errors import BundleError
from edgekit.spec.manifest import Text

__all__ = ["LONGEST_WORD", "SPECIAL", "WordPiece", "read_vocabulary"]

LONGEST_WORD = 100
"""A word of more characters is unknown as a whole."""

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""Written in a text like this, they are tokens, if the vocabulary has them."""

CONTINUED = "##"


class WordPiece:
    """Cuts texts into the pieces of one vocabulary. Safe to share between threads."""

    def __init__(self, vocabulary: Mapping[str, int], text: Text) -> None:
        """Take token -> id, and the flags and ids of the manifest."""
        self._ids = vocabulary
        self._text = text
        self._longest = max((len(token) for token in vocabulary), default=0)
        special = [re.escape(token) for token in SPECIAL if token in vocabulary]
        self._special = re.compile("(" + "|".join(special) + ")") if special else None

    def encode(self, text: str) -> tuple[int, ...]:
        """A text of any length -> its ids, between [CLS] and [SEP]; never truncated."""
        found = [self._text.cls]
        parts = self._special.split(text) if self._special else [text]
        for index, part in enumerate(parts):
            if index % 2:
                found.append(self._ids[part])
            elif part:
                for word in _words(self._cleaned(part)):
                    found.extend(self._pieces(word))
        found.append(self._text.sep)
        return tuple(found)

    def _cleaned(self, text: str) -> str:
        facts = self._text
        kinds = [_kind(char) for char in text]
        chars = [" " if kind == "space" else char for char, kind in zip(text, kinds, strict=True) if kind != "removed"]
        if facts.chinese_chars:
            chars = [f" {char} " if _is_chinese(char) else char for char in chars]
        if facts.strip_accents:
            chars = [char for char in unicodedata.normalize("NFD", "".join(chars)) if not _is_mark(char)]
        if facts.lower_case:
            # One character at a time: Python would otherwise choose the form of a final sigma by its neighbours.
            chars = [char.lower() for char in chars]
        return "".join(chars)

    def _pieces(self, word: str) -> list[int]:
        if len(word) > LONGEST_WORD:
            return [self._text.unk]
        pieces: list[int] = []
        start = 0
        while start < len(word):
            prefix = CONTINUED if start else ""
            for end in range(min(len(word), start + self._longest), start, -1):
                piece = self._ids.get(prefix + word[start:end])
                if piece is not None:
                    break
            else:
                return [self._text.unk]
            pieces.append(piece)
            start = end
        return pieces


def read_vocabulary(raw: bytes, *, where: str) -> dict[str, int]:
    """Bytes of vocab.txt, one token a line -> token to id, which is the number of its line.

    Raises:
        BundleError: `bundle-tokenizer`; not UTF-8, or a token twice.
    """
    try:
        # Not splitlines(): vocabularies hold characters that it takes for ends of lines.
        tokens = raw.decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise _refused(f"the vocabulary is not UTF-8: byte {error.start}", where) from error
    ids = {token: index for index, token in enumerate(tokens)}
    if len(ids) != len(tokens):
        twice = next(token for index, token in enumerate(tokens) if ids[token] != index)
        raise _refused(f"the vocabulary lists {twice!r} twice", where)
    return ids


def _refused(what: str, where: str) -> BundleError:
    return BundleError(what, where=where, fix="rebuild the bundle", code="bundle-tokenizer")


def _words(text: str) -> list[str]:
    """Split at spaces and around punctuation, which stays as words of one character."""
    words: list[str] = []
    for chunk in text.split(" "):
        start = 0
        for index, char in enumerate(chunk):
            if _is_punctuation(char):
                if index > start:
                    words.append(chunk[start:index])
                words.append(char)
                start = index + 1
        if start < len(chunk):
            words.append(chunk[start:])
    return words


@functools.cache
def _bounds(ranges: str) -> tuple[int, ...]:
    """Ranges -> first of a range, first behind it, first of the next: an odd number of bounds passed is inside."""
    found: list[int] = []
    for item in ranges.split():
        low, _, high = item.partition("-")
        found += [int(low, 16), int(high or low, 16) + 1]
    return tuple(found)


def _inside(char: str, ranges: str) -> bool:
    return bisect.bisect_right(_bounds(ranges), ord(char)) % 2 == 1


@functools.lru_cache(4096)
def _kind(char: str) -> str:
    return "removed" if _inside(char, REMOVED) else "space" if _inside(char, SPACES) else "kept"


@functools.lru_cache(4096)
def _is_chinese(char: str) -> bool:
    return _inside(char, CHINESE)


@functools.lru_cache(4096)
def _is_mark(char: str) -> bool:
    return _inside(char, MARKS)


@functools.lru_cache(4096)
def _is_punctuation(char: str) -> bool:
    return _inside(char, PUNCTUATION)

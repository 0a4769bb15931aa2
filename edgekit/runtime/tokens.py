"""From a text to the token ids of a bundle: by the `tokenizers` library where it is installed, else by `wordpiece`."""

import json
from collections.abc import Callable
from typing import Any

from edgekit.runtime.verify import GoldenResult, Reader
from edgekit.runtime.wordpiece import WordPiece, read_vocabulary
from edgekit.spec.errors import BundleError, InputError
from edgekit.spec.manifest import Text

__all__ = ["Encode", "check_examples", "open_encode", "read_text", "shortened"]

Encode = Callable[[str], tuple[int, ...]]
"""A text -> all of its ids, [CLS] and [SEP] included."""


def open_encode(reader: Reader, text: Text, *, library: bool = True) -> Encode:
    """The tokenizer of a bundle.

    Args:
        reader: the open bundle.
        text: its manifest's `text`.
        library: use the `tokenizers` library where it is installed; its ids are the same.

    Raises:
        BundleError: `bundle-tokenizer`; a file of the tokenizer cannot be read.
    """
    if library:
        try:
            import tokenizers
        except ImportError:
            pass
        else:
            return _by_library(tokenizers, reader.read(text.tokenizer), where=text.tokenizer)
    return WordPiece(read_vocabulary(reader.read(text.vocabulary), where=text.vocabulary), text).encode


def _by_library(tokenizers: Any, raw: bytes, *, where: str) -> Encode:
    try:
        backend = tokenizers.Tokenizer.from_str(raw.decode("utf-8"))
    except Exception as error:  # the library has no class of its own
        raise _refused(f"the tokenizer cannot be read: {str(error)[:200]}", where) from error
    backend.no_truncation()
    backend.no_padding()
    return lambda text: tuple(backend.encode(text).ids)


def read_text(text: object) -> str:
    """A text as a user gives it, `str` or bytes of UTF-8 -> `str`.

    Raises:
        InputError: `text-type`, or `text-utf8`: it is not Unicode.
    """
    if isinstance(text, bytes | bytearray):
        try:
            return bytes(text).decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"the text is not UTF-8: byte {error.start}", where="text", fix="save it as UTF-8", code="text-utf8"
            ) from error
    if not isinstance(text, str):
        raise InputError(
            f"cannot read a text from {type(text).__name__}", where="text", fix="give a str or bytes of UTF-8", code="text-type"
        )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"the text holds half of a surrogate pair at {error.start}",
            where="text",
            fix="decode it with errors='replace'",
            code="text-utf8",
        ) from error
    return text


def shortened(ids: tuple[int, ...], *, max_tokens: int) -> tuple[int, ...]:
    """Ids -> at most `max_tokens` of them; the last one, [SEP], stays."""
    return ids if len(ids) <= max_tokens else (*ids[: max_tokens - 1], ids[-1])


def check_examples(reader: Reader, text: Text) -> GoldenResult:
    """Hold the tokenizers that can run here to the bundle's examples; `max_difference` is the number of texts with other ids.

    Raises:
        BundleError: `bundle-tokenizer`; a file of the tokenizer or the examples cannot be read.
    """
    try:
        examples = [(str(item["text"]), tuple(item["ids"])) for item in json.loads(reader.read(text.examples))]
    except (ValueError, KeyError, TypeError) as error:
        raise _refused(f"the examples cannot be read: {error}", text.examples) from error
    if not examples:
        raise _refused("there are no examples", text.examples)
    ways = [open_encode(reader, text, library=library) for library in (False, True)]
    wrong = sum(any(encode(sample) != ids for encode in ways) for sample, ids in examples)
    return GoldenResult(len(examples), float(wrong), 0.0, wrong == 0)


def _refused(what: str, where: str) -> BundleError:
    return BundleError(what, where=where, fix="rebuild the bundle", code="bundle-tokenizer")

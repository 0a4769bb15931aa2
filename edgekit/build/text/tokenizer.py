"""The tokenizer of a network that reads text, at build time: WordPiece, as BERT and its relatives use it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgekit.build.data.texts import Texts
from edgekit.build.data.tokens import Tokens
from edgekit.spec.errors import InputError, SetupError

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

__all__ = ["FILE", "VOCABULARY", "Tokenizer", "WordPieceFacts", "open_tokenizer"]

FILE = "tokenizer.json"
VOCABULARY = "vocab.txt"
CONFIG = "tokenizer_config.json"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

_LONGEST_WORD = 100
_LARGEST_PADDING = 127
"""Rows of an embedding table that no token uses: tables are padded to a multiple of 8, 64 or 128."""

_FIX = f"put the {FILE}, or {VOCABULARY} and {CONFIG}, that belong to the weights into the same folder"


@dataclass(frozen=True, slots=True)
class WordPieceFacts:
    """How a text becomes ids, beside the vocabulary.

    Attributes:
        lower_case: whether letters are made small.
        strip_accents: whether accents are taken off.
        chinese_chars: whether CJK characters are words of their own.
        cls: id before every text.
        sep: id behind every text.
        pad: id of padding.
        unk: id of a word that cannot be cut into known pieces.
    """

    lower_case: bool
    strip_accents: bool
    chinese_chars: bool
    cls: int
    sep: int
    pad: int
    unk: int


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A tokenizer that neither truncates nor pads by itself.

    Attributes:
        backend: of the `tokenizers` library.
        facts: how it cuts.
        vocabulary: tokens in the order of their ids.
    """

    backend: "Backend"
    facts: WordPieceFacts
    vocabulary: tuple[str, ...]

    def encode(self, texts: Sequence[str], *, max_tokens: int) -> tuple[tuple[tuple[int, ...], ...], int]:
        """Texts -> (ids of each with [CLS] and [SEP], number of texts that were cut to `max_tokens`; they keep their [SEP])."""
        found, cut = [], 0
        for encoding in self.backend.encode_batch(list(texts)):
            ids = encoding.ids
            if len(ids) > max_tokens:
                ids, cut = [*ids[: max_tokens - 1], self.facts.sep], cut + 1
            found.append(tuple(ids))
        return tuple(found), cut

    def tokens(self, texts: Texts, *, max_tokens: int) -> Tokens:
        """The same texts as ids."""
        ids, cut = self.encode(texts.texts, max_tokens=max_tokens)
        return Tokens(texts.name, ids, max_tokens, texts.labels, texts.classes, cut)

    def write(self, folder: Path) -> None:
        """Write `tokenizer.json` and `vocab.txt`, from which the same tokenizer is read again."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE).write_text(self.backend.to_str(pretty=False), encoding="utf-8", newline="\n")
        (folder / VOCABULARY).write_text("".join(f"{token}\n" for token in self.vocabulary), encoding="utf-8", newline="\n")


def open_tokenizer(folder: Path, *, vocabulary: int | None = None) -> Tokenizer:
    """Read `tokenizer.json`, or make one from `vocab.txt` and `tokenizer_config.json`.

    Args:
        folder: where they lie.
        vocabulary: rows of the network's embedding table; None does not compare.

    Raises:
        InputError: `tokenizer` (missing, not readable, not WordPiece) or `tokenizer-size` (of another network).
        SetupError: the `tokenizers` library is not installed.
    """
    folder = Path(folder)
    backend = _backend(folder)
    backend.no_truncation()
    backend.no_padding()
    ids = backend.get_vocab()
    tokens = tuple(sorted(ids, key=lambda token: ids[token]))
    if sorted(ids.values()) != list(range(len(ids))):
        raise _refused("ids have gaps: they are not 0, 1, 2 and so on", folder)
    if vocabulary is not None and not _belongs(len(tokens), vocabulary):
        raise InputError(
            f"the tokenizer knows {len(tokens)} tokens, the network {vocabulary}",
            where=str(folder),
            fix=_FIX,
            code="tokenizer-size",
        )
    tokenizer = Tokenizer(backend, _facts(backend, ids, folder), tokens)
    (ids_of_a,), _ = tokenizer.encode(["a"], max_tokens=8)
    if (ids_of_a[0], ids_of_a[-1]) != (tokenizer.facts.cls, tokenizer.facts.sep):
        raise _refused("texts do not begin with [CLS] and end with [SEP]", folder)
    return tokenizer


def _belongs(tokens: int, rows: int) -> bool:
    """Whether a table of so many rows may be that of so many tokens; of a small vocabulary, 127 more rows are no padding."""
    return 0 <= rows - tokens <= _LARGEST_PADDING and (rows - tokens <= tokens or rows % (_LARGEST_PADDING + 1) == 0)


def _backend(folder: Path) -> "Backend":
    try:
        import tokenizers
    except ImportError as error:
        raise SetupError(f"tokenizers is not installed: {error}", where=str(folder), fix="pip install tokenizers") from error
    file, table = folder / FILE, folder / VOCABULARY
    if file.is_file():
        try:
            return tokenizers.Tokenizer.from_str(file.read_text(encoding="utf-8"))
        except Exception as error:  # the library has no class of its own
            raise _refused(f"{FILE} cannot be read: {str(error)[:200]}", folder) from None
    if table.is_file():
        return _from_vocabulary(table, _config(folder))
    raise InputError(f"no tokenizer: neither {FILE} nor {VOCABULARY}", where=str(folder), fix=_FIX, code="tokenizer")


def _config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise _refused(f"{VOCABULARY} alone does not say whether letters are made small: {CONFIG} is missing", folder) from None
    except (OSError, ValueError) as error:
        raise _refused(f"{CONFIG} cannot be read: {error}", folder) from None
    if not isinstance(config, dict):
        raise _refused(f"{CONFIG} is no JSON object", folder)
    return config


def _from_vocabulary(table: Path, config: dict[str, Any]) -> "Backend":
    """As BERT's own tokenizer: clean, lower, split at punctuation, then the longest known piece first."""
    from tokenizers import Tokenizer as Backend
    from tokenizers import models, normalizers, pre_tokenizers, processors

    try:
        # Not splitlines(): some vocabularies hold characters that it takes for ends of lines.
        lines = table.read_bytes().decode().replace("\r\n", "\n").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise _refused(f"{VOCABULARY} cannot be read: {error}", table.parent) from None
    ids = {token: i for i, token in enumerate(lines)}
    if len(ids) != len(lines):
        twice = next(token for i, token in enumerate(lines) if ids[token] != i)
        raise _refused(f"{VOCABULARY} lists {twice!r} twice", table.parent)
    missing = [token for token in SPECIAL[:4] if token not in ids]
    if missing:
        raise _refused(f"{VOCABULARY} lacks {', '.join(missing)}", table.parent)
    backend = Backend(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=_LONGEST_WORD))
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=bool(config.get("tokenize_chinese_chars", True)),
        strip_accents=config.get("strip_accents"),
        lowercase=bool(config.get("do_lower_case", True)),
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])]
    )
    backend.add_special_tokens([token for token in SPECIAL if token in ids])
    return backend


def _facts(backend: "Backend", ids: dict[str, int], folder: Path) -> WordPieceFacts:
    """Read back from the tokenizer itself, so that a reader without the library does the same."""
    document = json.loads(backend.to_str())
    model, normalizer, before = (document.get(key) or {} for key in ("model", "normalizer", "pre_tokenizer"))
    kinds = (model.get("type"), normalizer.get("type"), before.get("type"))
    if kinds != ("WordPiece", "BertNormalizer", "BertPreTokenizer"):
        told = ", ".join(str(kind) for kind in kinds)
        raise _refused(f"not BERT's WordPiece, but {told}", folder)
    if not normalizer.get("clean_text", True) or model.get("continuing_subword_prefix", "##") != "##":
        raise _refused("a WordPiece unlike BERT's: it keeps control characters, or its pieces do not begin with ##", folder)
    if model.get("max_input_chars_per_word", _LONGEST_WORD) != _LONGEST_WORD:
        raise _refused(f"words may be {model['max_input_chars_per_word']} characters long, not {_LONGEST_WORD}", folder)
    missing = [token for token in SPECIAL[:4] if token not in ids]
    if missing:
        raise _refused(f"the vocabulary lacks {', '.join(missing)}", folder)
    lower = bool(normalizer.get("lowercase", True))
    strip = normalizer.get("strip_accents")
    return WordPieceFacts(
        lower_case=lower,
        strip_accents=lower if strip is None else bool(strip),
        chinese_chars=bool(normalizer.get("handle_chinese_chars", True)),
        cls=ids["[CLS]"],
        sep=ids["[SEP]"],
        pad=ids["[PAD]"],
        unk=ids["[UNK]"],
    )


def _refused(what: str, folder: Path) -> InputError:
    return InputError(f"tokenizer: {what}", where=str(folder), fix=_FIX, code="tokenizer")

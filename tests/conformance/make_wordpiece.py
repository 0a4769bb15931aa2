"""What is in wordpiece.json, made with the `tokenizers` library."""

import json

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789éüßςσæ中文字カ한ابשל"  # noqa: RUF001
WORDS = ("card", "arriv", "##ed", "##ing", "un", "##able", "Card", "!", "?", ".", ",", "[", "]", "-", "'", "€", "😀", "👍", "#")
VOCABULARY = tuple(dict.fromkeys([*SPECIAL, *WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS)]))
TEXTS = {
    "empty": "",
    "spaces": " \t\n\r ",
    "words": "My card arrived, unable?",
    "accents": "Café naïve ÜBER ÅÉ",
    "combining": "cafe\u0301 a\u0308\u0301b \u0301",
    "cjk": "中文card字 カ 한",
    "emoji": "card😀👍🏽 👩\u200d👧",
    "control": "ca\x00r\x07d \x85 a\x1fb \ufffdcard \u0085",
    "zero-width": "ca\u200brd ca\u00adrd \ufeffcard a\u2060b",
    "no-break": "card\u00a0card\u3000card\u2028card",
    "long-100": "a" * 100,
    "long-101": "a" * 101,
    "very-long": "card " * 600,
    "special": "[CLS] card[MASK]a [SEP][PAD] [UNK]",
    "special-small": "[cls] [Mask]",
    "continued": "##ed #card ##",
    "rtl": "ابשל card",
    "sigma": "ΣΑΣ ς σ",  # noqa: RUF001
    "dotted-i": "İı",
    "sharp-s": "Straße ẞ",
    "punctuation": "a.b-c'd“e”¿f§g€h",
    "unknown": "card жжж ☃",
    "private-use": "a\ue000b",
    "new-unicode": "a\u1acfb \u2e55 a\u0890b",
}
FLAGS = ((True, True, True), (False, False, True), (True, False, True), (False, True, False))


def make():
    """The file's text: the vocabulary, then a case a line."""
    ids = {token: index for index, token in enumerate(VOCABULARY)}
    cases = []
    for lower, strip, chinese in FLAGS:
        made = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
        made.normalizer = normalizers.BertNormalizer(
            clean_text=True, handle_chinese_chars=chinese, strip_accents=strip, lowercase=lower
        )
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        edges = [(token, ids[token]) for token in ("[CLS]", "[SEP]")]
        made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=edges)
        made.add_special_tokens(list(SPECIAL))
        flags = {"lower_case": lower, "strip_accents": strip, "chinese_chars": chinese}
        cases += [{"name": name, **flags, "text": text, "ids": made.encode(text).ids} for name, text in TEXTS.items()]
    head = json.dumps({"version": 1, "kind": "wordpiece", "vocabulary": VOCABULARY})[:-1]
    lines = ",\n".join("  " + json.dumps(case) for case in cases)
    return f'{head}, "cases": [\n{lines}\n]}}\n'

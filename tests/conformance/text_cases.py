"""A small bundle of a network that reads text, which no engine could load, and manifests as edits of it."""

import json
import struct
from typing import Any

from manifest_case import ENTRY, GOLDEN, GONE, Case, good, rule, shape

from edgekit.spec import manifest as m

CLASSES, TEXTS, BUCKETS = 3, 2, (4, 8)
VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "card", "arriv", "##ed", "caf\u00e9")
EXAMPLES = (("", (2, 3)), ("card arrived", (2, 5, 6, 7, 3)), ("[MASK] caf\u00e9 zzz", (2, 4, 8, 1, 3)))
IDS, KEEP, OUTPUT = f"{ENTRY}.inputs.0", f"{ENTRY}.inputs.1", f"{ENTRY}.outputs.0"
SHAPE = f"{IDS}.shape"


def text_contents() -> dict[str, bytes]:
    """All files of `text` but the manifest."""
    contents = {
        "payloads/network.bin": b"not a network, but its bytes are checked all the same",
        "tokenizer/tokenizer.json": b"not a tokenizer of the library, but its bytes are checked all the same",
        "tokenizer/vocab.txt": "".join(f"{token}\n" for token in VOCABULARY).encode(),
        "tokenizer/examples.json": json.dumps([{"text": text, "ids": ids} for text, ids in EXAMPLES]).encode(),
        "labels.txt": b"late\nlost\nother\n",
    }
    for n in BUCKETS:
        rows = [(2, 5, 3, -1) + (-1,) * (n - 4), (2, 5, 6, 3) + (-1,) * (n - 4)]
        contents[f"goldens/ids-{n}.bin"] = struct.pack(f"<{TEXTS * n}i", *(number for row in rows for number in row))
        contents[f"goldens/out-{n}.bin"] = struct.pack("<6f", 0.5, -1.25, 0.25, 2.0, 2.0, n / 8)
    return contents


def text_manifest() -> m.Manifest:
    """All of `text` but the list of files."""
    logits = m.TensorSpec("logits", "float32", (1, CLASSES), "NC")
    entries = tuple(
        m.Entry(
            "main",
            "payloads/network.bin",
            f"tokens_{n}",
            (m.TensorSpec("ids", "int64", (1, n), "NT"), m.TensorSpec("keep", "float32", (1, n), "NT")),
            (logits,),
        )
        for n in BUCKETS
    )
    goldens = tuple(m.GoldenOutputs("main", f"goldens/out-{n}.bin", "float32", (TEXTS, CLASSES), 0.01, n) for n in BUCKETS)
    placement = m.Placement("XNNPACK", 2, (m.OperatorCount("linear", "int8", 2, "XNNPACK"),))
    return m.Manifest(
        m.FORMAT,
        m.ModelInfo("tiny", "text-classification", CLASSES, "random", ""),
        m.TargetInfo("host", ("executorch",)),
        None,
        (m.Rung("main"),),
        (m.Payload("executorch-int8", "executorch", "int8", entries, placement, goldens),),
        tuple(m.GoldenInputs("main", f"goldens/ids-{n}.bin", (TEXTS, n)) for n in BUCKETS),
        "labels.txt",
        {"edgekit": "0.1.0"},
        (),
        m.Text("tokenizer/tokenizer.json", "tokenizer/vocab.txt", True, True, True, 2, 3, 0, 1, 8, "tokenizer/examples.json"),
    )


def text_cases(base: Any, nano: Any) -> list[Case]:
    """Manifests of networks that read text; `base` and `nano` are manifests as JSON values."""
    return [*_good(), *_shapes(), *_heads(base, nano), *_entries(base), *_goldens(base)]


def _of_text(make: Any, name: str, why: str, *edits: tuple[str, Any]) -> Case:
    case: Case = make(f"text-{name}", why, *edits, base="text")
    return case


def _good() -> list[Case]:
    return [
        good("text", "a network that reads text, two buckets", base="text"),
        _of_text(good, "embeddings", "a sentence embedder", ("model.task", "sentence-embedding")),
        _of_text(good, "int32", "ids of 32 bits", (f"{IDS}.dtype", "int32")),
        _of_text(good, "precision", "a precision of texts", ("payloads.0.precision", "int8-weights")),
        good("text-null", "an image bundle that says it reads no text", ("text", None)),
    ]


def _shapes() -> list[Case]:
    """What the schema refuses."""
    return [
        _of_text(shape, "flag", "a number for a flag", ("text.lower_case", 1)),
        _of_text(shape, "flag-missing", "a flag has no default", ("text.strip_accents", GONE)),
        _of_text(shape, "id-negative", "an id below 0", ("text.pad", -1)),
        _of_text(shape, "max-tokens-zero", "no token", ("text.max_tokens", 0)),
        _of_text(shape, "ids-scale", "ids have no scale", (f"{IDS}.scale", 0.5)),
        _of_text(shape, "tokens-zero", "goldens of no token", (f"{GOLDEN}.tokens", 0)),
    ]


def _heads(base: Any, nano: Any) -> list[Case]:
    """Rules 2, 12 and 13."""
    inputs = base["golden_inputs"]
    return [
        rule("preprocess-null", "neither images nor text", ("preprocess", None)),
        rule("resolution-missing", "a network that sees images has a resolution", ("rungs.0.resolution_px", GONE)),
        _of_text(rule, "and-images", "images and text", ("preprocess", nano["preprocess"])),
        _of_text(rule, "tokenizer-file", "a tokenizer that is not listed", ("text.tokenizer", "other.json")),
        _of_text(rule, "vocabulary-file", "a vocabulary that is not listed", ("text.vocabulary", "other.txt")),
        _of_text(rule, "examples-file", "examples that are not listed", ("text.examples", "other.json")),
        _of_text(
            rule, "rungs", "a second rung that nothing serves", ("rungs", [*base["rungs"], {**base["rungs"][0], "name": "more"}])
        ),
        _of_text(rule, "resolution", "pixels of a text", ("rungs.0.resolution_px", 2)),
        _of_text(rule, "max-tokens-one", "no place for both ends", ("text.max_tokens", 1)),
        _of_text(rule, "golden-input-rung", "golden inputs of no rung", ("golden_inputs.0.rung", "more")),
        _of_text(rule, "golden-input-shape", "golden inputs with a third axis", ("golden_inputs.0.shape", [2, 4, 1])),
        _of_text(rule, "golden-input-twice", "golden inputs of a bucket twice", ("golden_inputs", [*inputs, inputs[0]])),
        _of_text(rule, "golden-input-size", "golden inputs of another size", ("golden_inputs.0.shape", [3, 4])),
    ]


def _entries(base: Any) -> list[Case]:
    """Rules 14 to 16, and those that hold for images too."""
    payload = base["payloads"][0]
    entries, keep = payload["entries"], payload["entries"][0]["inputs"][1]
    return [
        _of_text(rule, "payload-twice", "payload ids are unique", ("payloads", [payload, payload])),
        _of_text(rule, "entry-rung", "an entry of no rung", (f"{ENTRY}.rung", "more")),
        _of_text(rule, "entry-file", "a payload that is not listed", (f"{ENTRY}.file", "payloads/other.bin")),
        _of_text(rule, "pixel-table", "a text has no pixels", (f"{ENTRY}.pixel_table", "labels.txt")),
        _of_text(rule, "one-input", "ids without keep", (f"{ENTRY}.inputs", entries[0]["inputs"][:1])),
        _of_text(rule, "three-inputs", "something beside ids and keep", (f"{ENTRY}.inputs", [*entries[0]["inputs"], keep])),
        _of_text(rule, "ids-dtype", "ids that are floats", (f"{IDS}.dtype", "float32")),
        _of_text(rule, "ids-layout", "ids that are values", (f"{IDS}.layout", "NC")),
        _of_text(rule, "ids-batch", "two texts at once", (SHAPE, [2, 4]), (f"{KEEP}.shape", [2, 4])),
        _of_text(rule, "keep-dtype", "keep that is an integer", (f"{KEEP}.dtype", "int64")),
        _of_text(rule, "keep-shape", "keep of another length", (f"{KEEP}.shape", [1, 8])),
        _of_text(rule, "keep-layout", "keep that is values", (f"{KEEP}.layout", "NC")),
        _of_text(rule, "logits", "other number of logits than classes", ("model.classes", 4)),
        _of_text(rule, "logits-layout", "logits that are tokens", (f"{OUTPUT}.layout", "NT")),
        _of_text(rule, "buckets-order", "buckets descend", ("payloads.0.entries", entries[::-1])),
        _of_text(rule, "bucket-twice", "a bucket twice", ("payloads.0.entries", [*entries, entries[1]])),
        _of_text(rule, "max-tokens", "texts longer than the largest bucket", ("text.max_tokens", 16)),
    ]


def _goldens(base: Any) -> list[Case]:
    """Rule 17."""
    payload = base["payloads"][0]
    return [
        _of_text(rule, "golden-missing", "a bucket without golden", ("payloads.0.goldens", payload["goldens"][:1])),
        _of_text(rule, "golden-tokens-missing", "a golden of no bucket", (f"{GOLDEN}.tokens", GONE)),
        _of_text(rule, "golden-tokens", "two goldens of a bucket", (f"{GOLDEN}.tokens", 8)),
        _of_text(rule, "golden-inputs", "a bucket without golden inputs", ("golden_inputs", base["golden_inputs"][1:])),
        _of_text(rule, "golden-rung", "a golden of no rung", (f"{GOLDEN}.rung", "more")),
        _of_text(rule, "golden-dtype", "a golden of another dtype", (f"{GOLDEN}.dtype", "float16")),
        _of_text(rule, "golden-count", "more goldens than inputs", (f"{GOLDEN}.shape", [3, 3])),
        _of_text(rule, "golden-file", "a golden that is not listed", (f"{GOLDEN}.file", "goldens/none.bin")),
    ]

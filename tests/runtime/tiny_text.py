"""Bundles of a network that reads text, written by hand: mean of a table's kept rows. Random weights prove plumbing."""

import json

import numpy as np

from edgekit.runtime.wordpiece import WordPiece
from edgekit.spec import manifest as m
from edgekit.spec.bundle import write_bundle

VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "my", "card", "has", "not", "arriv", "##ed", "late", "!", "é", "e")
IDS = {token: index for index, token in enumerate(VOCABULARY)}
CLASSES, BUCKETS = 3, (8, 16)
LABELS = ("lost", "late", "other")
TABLE = np.random.default_rng(0).normal(size=(len(VOCABULARY), CLASSES)).astype(np.float32)
TEXT = m.Text("tokenizer.json", "vocab.txt", True, True, True, 2, 3, 0, 1, BUCKETS[-1], "examples.json")
EXAMPLES = ("", "my card arrived!", "my card has not arrived!", "late [MASK] zzz")


def reference(ids):
    return TABLE[list(ids)].mean(0)


def encode(text):
    return WordPiece(IDS, TEXT).encode(text)


def network(tokens, *, dtype="INT64"):
    """ONNX bytes; `tokens` None: symbolic length."""
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("Unsqueeze", ["keep", "one"], ["weights"]),
        helper.make_node("MatMul", ["weights", "rows"], ["sums3"]),
        helper.make_node("Squeeze", ["sums3", "one"], ["sums"]),
        helper.make_node("ReduceSum", ["keep", "one"], ["count"]),
        helper.make_node("Div", ["sums", "count"], ["logits"]),
    ]
    size = (1, "n" if tokens is None else tokens)
    graph = helper.make_graph(
        nodes,
        "tiny",
        [
            helper.make_tensor_value_info("ids", getattr(TensorProto, dtype), size),
            helper.make_tensor_value_info("keep", TensorProto.FLOAT, size),
        ],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, (1, CLASSES))],
        [numpy_helper.from_array(TABLE, "table"), numpy_helper.from_array(np.array([1], np.int64), "one")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def tokenizer_json():
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    made = Tokenizer(models.WordPiece(IDS, unk_token="[UNK]", max_input_chars_per_word=100))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    made.add_special_tokens(list(VOCABULARY[:5]))
    return made.to_str()


def write(out, *, static=False, wrong=0.0, task="text-classification", dtype="int64", examples=None):
    """Write the bundle -> its path; `wrong` is added to goldens, `static` gives each bucket a file of its own."""
    rows = {n: np.full((2, n), -1, np.int32) for n in BUCKETS}
    entries, goldens, inputs, contents = [], [], [], {}
    for n, ids in rows.items():
        for row, text in zip(ids, EXAMPLES[:2], strict=True):
            found = encode(text)
            row[: len(found)] = found
        file = f"model{n}.onnx" if static else "model.onnx"
        contents[file] = network(n if static else None, dtype=dtype.upper())
        size = (1, n)
        tensors = (m.TensorSpec("ids", dtype, size, "NT"), m.TensorSpec("keep", "float32", size, "NT"))
        entries.append(m.Entry("full", file, "", tensors, (m.TensorSpec("logits", "float32", (1, CLASSES), "NC"),)))
        wanted = np.stack([reference(row[row >= 0]) for row in ids]) + np.float32(wrong)
        contents[f"out{n}.bin"], contents[f"ids{n}.bin"] = wanted.astype("<f4").tobytes(), ids.astype("<i4").tobytes()
        goldens.append(m.GoldenOutputs("full", f"out{n}.bin", "float32", wanted.shape, 1e-4, n))
        inputs.append(m.GoldenInputs("full", f"ids{n}.bin", ids.shape))
    given = [{"text": text, "ids": list(encode(text))} for text in EXAMPLES] if examples is None else examples
    contents |= {"tokenizer.json": tokenizer_json().encode(), "vocab.txt": "".join(f"{t}\n" for t in VOCABULARY).encode()}
    contents |= {"examples.json": json.dumps(given).encode(), "labels.txt": "\n".join(LABELS).encode()}
    payload = m.Payload("onnx-fp32", "onnx", "fp32", tuple(entries), m.Placement("CPU", None, ()), tuple(goldens))
    model, target = m.ModelInfo("tiny", task, CLASSES, "random", ""), m.TargetInfo("host", ("onnx",))
    rungs = (m.Rung("full"),)
    manifest = m.Manifest(m.FORMAT, model, target, None, rungs, (payload,), tuple(inputs), "labels.txt", {}, (), TEXT)
    write_bundle(manifest, contents, out)
    return out

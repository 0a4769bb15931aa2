"""A Hugging Face folder and texts so small that a whole build takes seconds; the network is random until it is fitted."""

import csv
import json

import numpy as np

from edgekit import catalog
from edgekit.build.compression import Compression
from edgekit.build.request import BuildRequest

WORDS = {
    "card": ("card", "bank", "pin", "atm"),
    "parcel": ("parcel", "box", "courier", "delivery"),
    "train": ("train", "ticket", "platform", "delay"),
}
FILLERS = ("my", "the", "has", "not", "yet", "please", "where", "is", "it", "now", "again", "late")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def folder(path, *, hidden=64, layers=2, padding=4):
    """What `--model hf:DIR` takes: config.json, model.safetensors, vocab.txt."""
    from transformers import BertConfig, BertModel, set_seed

    vocabulary = [*SPECIAL, *FILLERS, *(word for words in WORDS.values() for word in words), *"abcdefghijklmnopqrstuvwxyz", "##s"]
    set_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary) + padding,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=4 * hidden,
        max_position_embeddings=32,
    )
    BertModel(config).save_pretrained(path)
    (path / "vocab.txt").write_text("".join(f"{word}\n" for word in vocabulary))
    (path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True}))
    return path


def texts(path, *, each, seed=0):
    """A CSV in which one word of a class stands among words that mean nothing."""
    rng = np.random.default_rng(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("text", "label"))
        for _ in range(each):
            for label, words in WORDS.items():
                row = [*rng.choice(FILLERS, rng.integers(1, 9)), rng.choice(words)]
                writer.writerow((" ".join(rng.permutation(row)), label))
    return path


def data(path, *, each=150):
    """A folder of train.csv and validation.csv."""
    texts(path / "train.csv", each=each)
    texts(path / "validation.csv", each=40, seed=1)
    return path


def request(place, model, data_dir=None, *, weights=None, engines=("onnx",), precisions=("int8",), tokens=(8, 16), **wish):
    """A build or fit into `place` with a store beside it."""
    return BuildRequest(
        model=catalog.find_model(model),
        target=catalog.find_target("host"),
        out=place / "out",
        data_dir=data_dir,
        weights=weights,
        engines=engines,
        precisions=precisions,
        tokens=tokens,
        store=place / "store",
        compression=Compression(**{"learning_rate": 3e-3, **wish}),
    )

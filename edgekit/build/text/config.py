"""The structure of a network that reads text, from the `config.json` of a local Hugging Face folder."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from edgekit.spec.errors import InputError

__all__ = ["CONFIGS", "FAMILIES", "FILES", "TextConfig", "read_classes", "read_config"]

FAMILIES = ("bert", "distilbert", "mobilebert")
FILES = ("model.safetensors", "pytorch_model.bin")
"""Weights in such a folder: the first that is there."""


@dataclass(frozen=True, slots=True)
class TextConfig:
    """A BERT-like encoder.

    Attributes:
        family: one of `FAMILIES`.
        vocabulary: rows of the embedding table.
        hidden: width of the hidden states.
        layers: number of them.
        heads: of attention.
        intermediate: width inside the feed-forward.
        positions: longest text in tokens.
        epsilon: of layer norms.
        activation: `gelu` or `relu`.
        pooling: `mean` over tokens, or `cls`: the first token's state.
        pooler: activation of a layer between the pooled state and the head: `tanh` or `relu`; empty without such a layer.
        embedding: width of the table (MobileBERT); 0 is `hidden`.
        bottleneck: width inside a layer (MobileBERT); 0 without.
        feed_forwards: in a layer.
        no_norm: scale and shift in place of layer norms (MobileBERT).
    """

    family: str
    vocabulary: int
    hidden: int
    layers: int
    heads: int
    intermediate: int
    positions: int
    epsilon: float = 1e-12
    activation: str = "gelu"
    pooling: str = "mean"
    pooler: str = ""
    embedding: int = 0
    bottleneck: int = 0
    feed_forwards: int = 1
    no_norm: bool = False


CONFIGS: Mapping[str, TextConfig] = MappingProxyType(
    {
        "minilm_l6": TextConfig("bert", 30522, 384, 6, 12, 1536, 512),
        "bert_base": TextConfig("bert", 30522, 768, 12, 12, 3072, 512),
        "distilbert": TextConfig("distilbert", 30522, 768, 6, 12, 3072, 512),
        "mobilebert": TextConfig(
            "mobilebert",
            30522,
            512,
            24,
            4,
            512,
            512,
            activation="relu",
            embedding=128,
            bottleneck=128,
            feed_forwards=4,
            no_norm=True,
        ),
    }
)
"""Structures of the networks that have a name, as their authors published them."""

_CLASSIFIER = "ForSequenceClassification"


def read_config(folder: Path) -> TextConfig:
    """The structure that `config.json` describes. Folders of sequence classifiers pool as their family's classifier does.

    Raises:
        InputError: `hf-config` (missing, damaged, or with settings that are not supported) or `hf-family`.
    """
    path, data = folder / "config.json", _read(folder)
    family = data.get("model_type")
    if family not in FAMILIES:
        raise InputError(
            f"a network of the family {family!r} is not supported; supported are {', '.join(FAMILIES)}",
            where=str(path),
            fix=f"use a network of the family {', '.join(FAMILIES[:-1])} or {FAMILIES[-1]}",
            code="hf-family",
        )
    try:
        config = _distilbert(data) if family == "distilbert" else _mobilebert(data) if family == "mobilebert" else _bert(data)
    except (KeyError, TypeError, ValueError) as error:
        raise _refused(f"config.json lacks or misstates {error}", folder) from None
    sizes = (config.hidden, config.layers, config.heads, config.intermediate, config.vocabulary, config.positions)
    if min(sizes) < 1 or config.hidden % config.heads:
        raise _refused("sizes in config.json do not fit each other", folder)
    return config


def read_classes(folder: Path) -> tuple[str, ...]:
    """Names of the classes that a folder of a sequence classifier tells apart, in the order of its outputs; else none.

    Raises:
        InputError: `hf-config`.
    """
    data = _read(folder)
    if not _classifies(data):
        return ()
    named = data.get("id2label") or {}
    if isinstance(named, list):
        named = {str(i): name for i, name in enumerate(named)}
    count = len(named) if isinstance(named, dict) and named else data.get("num_labels", 2)
    if not isinstance(named, dict) or not isinstance(count, int) or count < 1:
        raise _refused("config.json misstates its classes: id2label or num_labels", folder)
    return tuple(str(named.get(str(i), f"LABEL_{i}")) for i in range(count))


def _read(folder: Path) -> Mapping[str, Any]:
    try:
        data = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise _refused("there is no config.json", folder) from None
    except (OSError, ValueError) as error:
        raise _refused(f"config.json cannot be read: {error}", folder) from None
    if not isinstance(data, dict):
        raise _refused("config.json is no JSON object", folder)
    return data


def _bert(data: Mapping[str, Any]) -> TextConfig:
    if data.get("position_embedding_type", "absolute") != "absolute":
        raise ValueError(f"position_embedding_type {data['position_embedding_type']!r}: only 'absolute' is supported")
    return TextConfig(
        "bert",
        **_sizes(data, "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
        epsilon=float(data.get("layer_norm_eps", 1e-12)),
        activation=_activation(data.get("hidden_act", "gelu")),
        **_pooled(data, pooler="tanh"),
    )


def _distilbert(data: Mapping[str, Any]) -> TextConfig:
    return TextConfig(
        "distilbert",
        **_sizes(data, "dim", "n_layers", "n_heads", "hidden_dim"),
        activation=_activation(data.get("activation", "gelu")),
        **_pooled(data, pooler="relu"),
    )


def _mobilebert(data: Mapping[str, Any]) -> TextConfig:
    for key, wanted in (
        ("trigram_input", True),
        ("use_bottleneck", True),
        ("use_bottleneck_attention", False),
        ("key_query_shared_bottleneck", True),
    ):
        if data.get(key, wanted) is not wanted:
            raise ValueError(f"{key} {data[key]!r}: only {wanted} is supported")
    return TextConfig(
        "mobilebert",
        **_sizes(data, "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
        epsilon=float(data.get("layer_norm_eps", 1e-12)),
        activation=_activation(data.get("hidden_act", "relu")),
        embedding=int(data["embedding_size"]),
        bottleneck=int(data["intra_bottleneck_size"]),
        feed_forwards=int(data["num_feedforward_networks"]),
        no_norm=data.get("normalization_type", "no_norm") == "no_norm",
        **_pooled(data, pooler="tanh" if data.get("classifier_activation", True) else ""),
    )


def _sizes(data: Mapping[str, Any], hidden: str, layers: str, heads: str, intermediate: str) -> dict[str, int]:
    return {
        "vocabulary": int(data["vocab_size"]),
        "hidden": int(data[hidden]),
        "layers": int(data[layers]),
        "heads": int(data[heads]),
        "intermediate": int(data[intermediate]),
        "positions": int(data["max_position_embeddings"]),
    }


def _pooled(data: Mapping[str, Any], *, pooler: str) -> dict[str, str]:
    """A folder of a classifier pools as that classifier was trained to; any other takes the mean over tokens."""
    if _classifies(data):
        return {"pooling": "cls", "pooler": pooler}
    return {"pooling": "mean", "pooler": ""}


def _classifies(data: Mapping[str, Any]) -> bool:
    named = data.get("architectures") or ()
    return any(str(name).endswith(_CLASSIFIER) for name in (named if isinstance(named, list) else (named,)))


def _activation(name: str) -> str:
    known = {"gelu": "gelu", "relu": "relu"}
    if name not in known:
        raise ValueError(f"activation {name!r}: only gelu and relu are supported")
    return known[name]


def _refused(what: str, folder: Path) -> InputError:
    return InputError(what, where=str(folder), fix="give a folder as Hugging Face's save_pretrained writes it", code="hf-config")

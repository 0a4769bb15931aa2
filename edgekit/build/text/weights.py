"""Weights of a local Hugging Face folder into our own networks, name by name."""

from collections.abc import Iterator
from pathlib import Path

import torch

from edgekit.build.text.config import FILES, TextConfig
from edgekit.build.text.network import TextNetwork
from edgekit.spec.errors import InputError, SetupError

__all__ = ["load_weights"]

PREFIXES = ("bert.", "distilbert.", "mobilebert.", "")

_LAYER = {
    "bert": {
        "attention.q": "attention.self.query",
        "attention.k": "attention.self.key",
        "attention.v": "attention.self.value",
        "attention.o": "attention.output.dense",
        "norm1": "attention.output.LayerNorm",
        "up": "intermediate.dense",
        "down": "output.dense",
        "norm2": "output.LayerNorm",
    },
    "distilbert": {
        "attention.q": "attention.q_lin",
        "attention.k": "attention.k_lin",
        "attention.v": "attention.v_lin",
        "attention.o": "attention.out_lin",
        "norm1": "sa_layer_norm",
        "up": "ffn.lin1",
        "down": "ffn.lin2",
        "norm2": "output_layer_norm",
    },
    "mobilebert": {
        "attention.q": "attention.self.query",
        "attention.k": "attention.self.key",
        "attention.v": "attention.self.value",
        "attention.o": "attention.output.dense",
        "norm1": "attention.output.LayerNorm",
        "shrink.linear": "bottleneck.input.dense",
        "shrink.norm": "bottleneck.input.LayerNorm",
        "shared.linear": "bottleneck.attention.dense",
        "shared.norm": "bottleneck.attention.LayerNorm",
        "widen": "output.bottleneck.dense",
        "norm2": "output.bottleneck.LayerNorm",
    },
}
"""Module of one of our layers -> the folder's, below `encoder.layer.N.` (DistilBERT: `transformer.layer.N.`)."""


def load_weights(network: TextNetwork, folder: Path) -> tuple[str, ...]:
    """Load the folder's weights, in place -> names of our tensors that it has not: a new head, and its pooler.

    Raises:
        InputError: `hf-weights`; no weights, damaged ones, or some that are missing, of another shape or no numbers.
        SetupError: safetensors is not installed.
    """
    theirs = _read(folder)
    prefix = next(p for p in PREFIXES if any(key.startswith(f"{p}embeddings.") for key in theirs) or not p)
    state, new = dict(network.state_dict()), []
    for ours, name in _names(network.config):
        if ours not in state:
            continue
        found = theirs.get(name if name.startswith(("classifier.", "pre_classifier.")) else f"{prefix}{name}")
        if found is None and ours.startswith(("head.", "pooler.")):
            new.append(ours)
        elif found is None:
            raise _refused(f"there is no tensor {prefix}{name}", folder)
        elif ours.startswith("head.") and found.shape != state[ours].shape:
            new.append(ours)  # a classifier of other classes
        elif found.shape != state[ours].shape:
            raise _refused(f"{prefix}{name} is {tuple(found.shape)}, config.json asks for {tuple(state[ours].shape)}", folder)
        elif not found.isfinite().all():
            raise _refused(f"{prefix}{name} holds values that are no numbers", folder)
        else:
            state[ours] = found.to(torch.float32)
    network.load_state_dict(state)
    return tuple(new)


def _names(config: TextConfig) -> Iterator[tuple[str, str]]:
    """(name of our tensor, the folder's without prefix) of all that there may be."""
    family = config.family
    encoder = "transformer" if family == "distilbert" else "encoder"
    yield "embeddings.words.weight", "embeddings.word_embeddings.weight"
    yield "embeddings.positions.weight", "embeddings.position_embeddings.weight"
    yield "embeddings.types.weight", "embeddings.token_type_embeddings.weight"
    modules = {"embeddings.norm": "embeddings.LayerNorm", "embeddings.transform": "embeddings.embedding_transformation"}
    for i in range(config.layers):
        modules |= {f"layers.{i}.{a}": f"{encoder}.layer.{i}.{b}" for a, b in _LAYER[family].items()}
        if family == "mobilebert":
            modules |= dict(_feed_forwards(config, i))
    if family == "distilbert":
        modules |= {"pooler": "pre_classifier", "head": "classifier"}
    else:
        modules |= {"pooler": "pooler.dense", "head": "classifier"}
    for ours, name in modules.items():
        for kind in ("weight", "bias"):
            yield f"{ours}.{kind}", f"{name}.{kind}"


def _feed_forwards(config: TextConfig, layer: int) -> Iterator[tuple[str, str]]:
    """The last of a layer has no number: it is the layer's own."""
    for j in range(config.feed_forwards):
        place = f"encoder.layer.{layer}." + (f"ffn.{j}." if j < config.feed_forwards - 1 else "")
        for ours, theirs in (("up", "intermediate.dense"), ("down", "output.dense"), ("norm", "output.LayerNorm")):
            yield f"layers.{layer}.feed_forwards.{j}.{ours}", f"{place}{theirs}"


def _read(folder: Path) -> dict[str, torch.Tensor]:
    path = next((folder / name for name in FILES if (folder / name).is_file()), None)
    if path is None:
        raise _refused(f"there are no weights: none of {', '.join(FILES)}", folder)
    if path.suffix == ".safetensors":
        try:
            from safetensors import SafetensorError
            from safetensors.torch import load_file
        except ImportError as error:
            raise SetupError(f"safetensors is not installed: {error}", where=str(path), fix="pip install safetensors") from error
        try:
            state = load_file(path)
        except (SafetensorError, OSError) as error:
            raise _refused(f"{path.name} cannot be read: {error}", folder) from None
    else:
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # torch has no class of its own for a damaged file
            raise _refused(f"{path.name} cannot be read: {str(error).splitlines()[0][:200]}", folder) from None
    # Checkpoints that came from TensorFlow name a norm's parameters otherwise.
    renamed = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
    return {_renamed(key, renamed): value for key, value in state.items()}


def _renamed(key: str, names: dict[str, str]) -> str:
    for old, new in names.items():
        key = key.replace(old, new)
    return key


def _refused(what: str, folder: Path) -> InputError:
    return InputError(
        what,
        where=str(folder),
        fix="give a folder with config.json and the model.safetensors that belongs to it",
        code="hf-weights",
    )

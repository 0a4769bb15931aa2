"""A trained network with another number of classes."""

from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from edgekit.build.checkpoint import WEIGHTS, read_checkpoint
from edgekit.build.construct import make_network
from edgekit.build.facts import Facts, read_facts
from edgekit.build.network import Network
from edgekit.build.structure import read_structure, reshape
from edgekit.spec.errors import InputError

__all__ = ["with_head"]


def with_head(network: Network, folder: Path, classes: int) -> tuple[nn.Module, tuple[str, ...]]:
    """The checkpoint's network with `classes` outputs, and the names of the tensors that are new: none where it has as many.

    All other weights are the checkpoint's, whatever became of its structure; new ones are drawn by `network.seed`. The module is
    in evaluation mode, without gradients.

    Args:
        network: what the checkpoint was made from.
        folder: the checkpoint.
        classes: wanted outputs.

    Raises:
        InputError: `classes`; the factory takes no number of classes, or more than the classifier depends on it.
    """
    facts = read_facts(folder)
    if facts.classes == classes:
        return read_checkpoint(folder, network), ()
    bare = replace(network, weights=None)
    module = make_network(replace(bare, classes=classes))
    before = make_network(replace(bare, classes=facts.classes)).state_dict()
    head = _changed_layer(module, before, network, facts, classes)
    state = torch.load(folder / WEIGHTS, weights_only=True)
    structure = read_structure(folder)
    if structure.separable:
        from edgekit.build.separable import replace_layers

        replace_layers(module, structure.separable)
    new = _new_tensors(module.get_submodule(head), state[f"{head}.weight"], classes, seed=network.seed)
    replaced = {f"{head}.{key}": value for key, value in new.items()}
    state.update(replaced)
    if structure.pruned:
        reshape(module, state)
    module.load_state_dict(state)
    return module.eval().requires_grad_(False), tuple(replaced)


def _changed_layer(module: nn.Module, before: dict[str, torch.Tensor], network: Network, facts: Facts, classes: int) -> str:
    """Name of the one layer whose tensors depend on the number of classes: the last linear layer or 1x1 convolution."""
    place = network.factory if network.file is None else f"{network.file.path}, {network.factory}"
    after = module.state_dict()
    changed = sorted(key for key in before.keys() | after.keys() if _shape(before, key) != _shape(after, key))
    if not changed:
        raise InputError(
            f"{network.factory} makes {facts.classes} outputs whatever is asked for, the data has {classes} classes",
            where=place,
            fix=f"let the factory take `classes`: def {network.factory}(classes={classes})",
            code="classes",
        )
    layers = {key.rpartition(".")[0] for key in changed}
    last = [name for name, layer in module.named_modules() if _classifies(layer)][-1:]
    if layers != set(last) or _shape(after, f"{last[0]}.weight")[0] != classes:
        raise InputError(
            f"more than the classifier changes with the number of classes: {', '.join(changed[:3])}"
            f"{' ...' if len(changed) > 3 else ''}",
            where=place,
            fix="let only the last linear layer, or the last 1x1 convolution, depend on `classes`",
            code="classes",
        )
    return last[0]


def _classifies(layer: nn.Module) -> bool:
    return isinstance(layer, nn.Linear) or (isinstance(layer, nn.Conv2d) and layer.kernel_size == (1, 1))


def _shape(state: dict[str, torch.Tensor], key: str) -> tuple[int, ...]:
    return tuple(state[key].shape) if key in state else ()


def _new_tensors(layer: nn.Module, old: torch.Tensor, classes: int, *, seed: int) -> dict[str, torch.Tensor]:
    """Of a layer with `classes` rows; drawn anew where pruning took some of its inputs."""
    if layer.weight.shape[1:] == old.shape[1:]:
        return {key: value.clone() for key, value in layer.state_dict().items()}
    torch.manual_seed(seed)
    bias = layer.bias is not None
    fresh = nn.Linear(old.shape[1], classes, bias) if old.dim() == 2 else nn.Conv2d(old.shape[1], classes, 1, bias=bias)
    return {key: value.detach() for key, value in fresh.state_dict().items()}

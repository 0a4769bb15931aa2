"""What became of a network's structure after it was made: layers replaced, channels removed. Enough to make it again."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import nn

__all__ = ["FILE", "Structure", "read_structure", "reshape", "write_structure"]

FILE = "structure.json"


@dataclass(frozen=True, slots=True)
class Structure:
    """Changes, in the order they were made.

    Attributes:
        separable: names of 3x3 convolutions that became depthwise and pointwise ones, see `separable.py`.
        pruned: whether channels were removed; how many is in the shapes of the weights.
    """

    separable: tuple[str, ...] = ()
    pruned: bool = False


def write_structure(folder: Path, structure: Structure) -> None:
    """Write `structure.json`."""
    (folder / FILE).write_text(json.dumps(asdict(structure), indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read_structure(folder: Path) -> Structure:
    """Read `structure.json`; an untouched network has none."""
    path = folder / FILE
    if not path.is_file():
        return Structure()
    data = json.loads(path.read_text(encoding="utf-8"))
    return Structure(tuple(data["separable"]), bool(data["pruned"]))


def reshape(module: nn.Module, state: dict[str, torch.Tensor]) -> None:
    """Give convolutions, linear layers and batch norms the sizes of the weights in `state`, in place; values stay unset."""
    for name, layer in module.named_modules():
        weight = state.get(f"{name}.weight")
        if weight is None or weight.shape == layer.weight.shape:
            continue
        if isinstance(layer, nn.Conv2d | nn.Conv1d):
            depthwise = layer.groups == layer.in_channels and layer.groups > 1
            layer.groups = weight.shape[0] if depthwise else layer.groups
            layer.out_channels, layer.in_channels = weight.shape[0], weight.shape[1] * layer.groups
        elif isinstance(layer, nn.Linear):
            layer.out_features, layer.in_features = weight.shape
        elif isinstance(layer, nn.modules.batchnorm._BatchNorm):
            layer.num_features = weight.shape[0]
        _resize_tensors(layer, name, state)


def _resize_tensors(layer: nn.Module, name: str, state: dict[str, torch.Tensor]) -> None:
    for key, parameter in list(layer.named_parameters(recurse=False)):
        setattr(layer, key, nn.Parameter(torch.empty_like(state[f"{name}.{key}"]), requires_grad=parameter.requires_grad))
    for key, buffer in list(layer.named_buffers(recurse=False)):
        if buffer is not None:
            setattr(layer, key, torch.empty_like(state[f"{name}.{key}"]))

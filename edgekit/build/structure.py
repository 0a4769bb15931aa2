"""What became of a network's structure after it was made: layers replaced, channels removed. Enough to make it again."""

import json
from collections.abc import Mapping
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
        separable: names of convolutions that became depthwise and pointwise ones, see `separable.py`.
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


def reshape(module: nn.Module, state: Mapping[str, torch.Tensor]) -> None:
    """Give every layer the sizes of the weights in `state`, in place; values of resized tensors stay unset.

    Sizes that a layer also keeps as plain numbers follow: convolutions (grouped, depthwise and transposed ones too), linear
    layers, norms and PReLU. Numbers that a network of the user's own keeps elsewhere cannot be known.
    """
    made: dict[nn.Parameter, nn.Parameter] = {}
    for name, layer in module.named_modules():
        if _resize_tensors(layer, f"{name}." if name else "", state, made=made):
            _resize_numbers(layer)


def _resize_tensors(
    layer: nn.Module, prefix: str, state: Mapping[str, torch.Tensor], *, made: dict[nn.Parameter, nn.Parameter]
) -> bool:
    """Whether any had another size; through `made`, old to new, a parameter that two layers share stays shared."""
    changed = False
    for key, parameter in list(layer.named_parameters(recurse=False, remove_duplicate=False)):
        wanted = state.get(prefix + key)
        if wanted is not None and wanted.shape != parameter.shape:
            if parameter not in made:
                empty = torch.empty(wanted.shape, dtype=parameter.dtype, device=parameter.device)
                made[parameter] = nn.Parameter(empty, requires_grad=parameter.requires_grad)
            setattr(layer, key, made[parameter])
            changed = True
    for key, buffer in list(layer.named_buffers(recurse=False, remove_duplicate=False)):
        wanted = state.get(prefix + key)
        if wanted is not None and wanted.shape != buffer.shape:
            setattr(layer, key, torch.empty(wanted.shape, dtype=buffer.dtype, device=buffer.device))
            changed = True
    return changed


def _resize_numbers(layer: nn.Module) -> None:
    if isinstance(layer, nn.modules.conv._ConvNd):
        _resize_convolution(layer)
    elif isinstance(layer, nn.Linear):
        layer.out_features, layer.in_features = layer.weight.shape
    elif isinstance(layer, nn.modules.batchnorm._NormBase):  # batch and instance norms
        layer.num_features = len(layer.weight if layer.affine else layer.running_mean)
    elif isinstance(layer, nn.GroupNorm):
        layer.num_channels = len(layer.weight)
    elif isinstance(layer, nn.LayerNorm):
        layer.normalized_shape = tuple(layer.weight.shape)
    elif isinstance(layer, nn.PReLU):
        layer.num_parameters = layer.weight.numel()


def _resize_convolution(layer: nn.modules.conv._ConvNd) -> None:
    """`groups` of a depthwise one follows its channels; any other keeps it."""
    first, second = layer.weight.shape[:2]
    depthwise = layer.groups > 1 and layer.groups == layer.in_channels
    if layer.transposed:  # (in, out / groups, ...)
        layer.groups = first if depthwise else layer.groups
        layer.in_channels, layer.out_channels = first, second * layer.groups
    else:  # (out, in / groups, ...)
        layer.groups = first * layer.in_channels // layer.out_channels if depthwise else layer.groups
        layer.in_channels, layer.out_channels = second * layer.groups, first

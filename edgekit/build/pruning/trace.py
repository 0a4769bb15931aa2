"""Which channels of a network are coupled. torch-pruning follows them; `proof.py` tries whether it followed them rightly.

Source: Fang et al., DepGraph: Towards Any Structural Pruning (CVPR 2023).
"""

import copy
import math
import warnings
from collections.abc import Iterable, Iterator

import torch
import torch_pruning
from torch import nn
from torch_pruning import ops

from edgekit.build.pruning.costs import Costs, Extent, TensorCost
from edgekit.build.pruning.groups import ChannelGroup, Skipped, Slice, Traced
from edgekit.build.pruning.proof import proved
from edgekit.build.pruning.refusals import refuse_branches, untraceable
from edgekit.build.training.size import places_of
from edgekit.build.user_code import FAILURES, first_line
from edgekit.spec.errors import InputError

__all__ = ["trace"]

_ROOTS = (nn.modules.conv._ConvNd, nn.Linear)


class _Unsupported(Exception):  # noqa: N818 - it never leaves this file
    """Why a group cannot be pruned."""


def trace(module: nn.Module, *, resolution_px: int) -> Traced:
    """Find the groups of a network for images of (1, 3, resolution, resolution); the network itself is not changed.

    Channels of the input and of the outputs belong to no group.

    Raises:
        InputError: `prune-trace`; it cannot be followed, or no group can be pruned.
    """
    twin = copy.deepcopy(module).cpu().eval().requires_grad_(True)
    image = torch.zeros(1, 3, resolution_px, resolution_px)
    refuse_branches(twin, image)
    graph = _graph(twin, image)
    names = {layer: name for name, layer in twin.named_modules()}
    groups, skipped = [], []
    for leader, coupled in _coupled(twin, graph):
        name = names[leader]
        if isinstance(coupled, str):
            skipped.append(Skipped(name, coupled))
            continue
        if any(_is_output(graph, dep) for dep, _ in coupled):
            continue
        try:
            groups.append(_group(name, coupled, graph, names))
        except _Unsupported as why:
            skipped.append(Skipped(name, str(why)))
    groups = [_with_aliases(group, twin) for group in groups if group.units > 1]
    good, bad = proved(twin.requires_grad_(False), groups, resolution_px=resolution_px)
    skipped = sorted((*skipped, *bad), key=lambda each: list(names.values()).index(each.group))
    if not good:
        raise _nothing_left(skipped)
    costs = _costs(twin, good, image)
    return Traced(_priced(good, costs), tuple(skipped), costs)


def _graph(module: nn.Module, image: torch.Tensor) -> torch_pruning.DependencyGraph:
    graph = torch_pruning.DependencyGraph()
    try:
        with torch.enable_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = module(image)
            if not isinstance(answer, torch.Tensor) or answer.grad_fn is None:
                raise _Unsupported("its answer is computed without gradients, which are what channels are followed along")
            graph.build_dependency(module, image, verbose=False)
    except FAILURES as error:
        if not hasattr(graph, "module2node"):
            raise untraceable(error) from error
        # All is there but how reshapes renumber channels. Without that the groups around them are wrong, and will be found out.
        for node in graph.module2node.values():
            if node.type == ops.OPTYPE.RESHAPE:
                node.type = ops.OPTYPE.ELEMENTWISE
    return graph


def _coupled(module: nn.Module, graph: torch_pruning.DependencyGraph) -> Iterator[tuple[nn.Module, torch_pruning.Group | str]]:
    """(leading layer, its group over all its channels, or why there is none).

    Depthwise layers only lead where nothing else makes the channels.
    """
    layers = [layer for layer in module.modules() if isinstance(layer, _ROOTS) and layer in graph.module2node]
    place = {layer: i for i, layer in enumerate(layers)}
    seen: set[nn.Module] = set()
    found: list[tuple[nn.Module, torch_pruning.Group | str]] = []
    for layer in sorted(layers, key=_is_depthwise):
        if layer in seen:
            continue
        pruner = graph.get_pruner_of_module(layer)
        try:
            group = graph.get_pruning_group(layer, pruner.prune_out_channels, list(range(pruner.get_out_channels(layer))))
        except FAILURES as error:
            found.append((layer, f"torch-pruning cannot follow its channels: {type(error).__name__}: {first_line(error)}"))
            continue
        found.append((layer, group))
        seen |= {dep.target.module for dep, _ in group if graph.is_out_channel_pruning_fn(dep.handler)}
    yield from sorted(found, key=lambda pair: place[pair[0]])


def _is_depthwise(layer: nn.Module) -> bool:
    return isinstance(layer, nn.modules.conv._ConvNd) and 1 < layer.groups == layer.out_channels


def _is_output(graph: torch_pruning.DependencyGraph, dep: torch_pruning.Dependency) -> bool:
    node = dep.target
    return node.type == ops.OPTYPE.OUTPUT or (not node.outputs and graph.is_out_channel_pruning_fn(dep.handler))


def _group(
    name: str, coupled: torch_pruning.Group, graph: torch_pruning.DependencyGraph, names: dict[nn.Module, str]
) -> ChannelGroup:
    channels = len(coupled[0].idxs)
    blocks = math.lcm(*(_blocks(dep.target.module) for dep, _ in coupled))
    if channels % blocks:
        raise _Unsupported(f"{channels} channels do not divide into the {blocks} groups of the layers that take them")
    slices, exact = [], True
    for item in coupled:
        layer, out = item.dep.target.module, graph.is_out_channel_pruning_fn(item.dep.handler)
        exact = exact and not isinstance(layer, nn.LayerNorm | nn.GroupNorm)
        roots = dict(zip(item.idxs, item.root_idxs, strict=True))
        if isinstance(layer, nn.Parameter):
            tensors = [(graph._param_to_name[layer], item.dep.target.pruning_dim, layer)]
        elif isinstance(layer, nn.Module) and layer in names:
            tensors = [(f"{names[layer]}.{key}", axis, getattr(layer, key)) for key, axis in _tensors(layer, out=out)]
        else:
            continue  # an operation, which holds no values
        slices += [_slice(key, axis, tensor, roots, channels // blocks) for key, axis, tensor in tensors]
    return ChannelGroup(name, channels, blocks, tuple(slices), exact=exact)


def _blocks(layer: object) -> int:
    if isinstance(layer, nn.GroupNorm):
        return layer.num_groups
    grouped = isinstance(layer, nn.modules.conv._ConvNd) and layer.groups > 1 and not _is_depthwise(layer)
    return layer.groups if grouped else 1


def _tensors(layer: nn.Module, *, out: bool) -> Iterable[tuple[str, int]]:
    """(tensor, axis) of a layer's channels."""
    found: list[tuple[str, int]]
    if _is_depthwise(layer):
        found = [("weight", 0), ("bias", 0)]
    elif isinstance(layer, nn.modules.conv._ConvNd):
        if layer.transposed and layer.groups > 1:
            raise _Unsupported("a transposed convolution has groups")
        first = 1 if layer.transposed else 0
        found = [("weight", first), ("bias", 0)] if out else [("weight", 1 - first)]
    elif isinstance(layer, nn.Linear):
        found = [("weight", 0), ("bias", 0)] if out else [("weight", 1)]
    elif isinstance(layer, nn.modules.batchnorm._NormBase):
        found = [(key, 0) for key in ("weight", "bias", "running_mean", "running_var")]
    elif isinstance(layer, nn.LayerNorm):
        found = [("weight", len(layer.normalized_shape) - 1), ("bias", len(layer.normalized_shape) - 1)]
    elif isinstance(layer, nn.GroupNorm):
        found = [("weight", 0), ("bias", 0)]
    elif isinstance(layer, nn.PReLU):
        found = [] if layer.num_parameters == 1 else [("weight", 0)]
    elif not any(True for _ in layer.parameters()):
        found = []
    else:
        raise _Unsupported(f"a {type(layer).__name__} takes its channels, and how that gets fewer is not known")
    return [(key, axis) for key, axis in found if getattr(layer, key, None) is not None]


def _slice(key: str, axis: int, tensor: torch.Tensor, roots: dict[int, int | None], units: int) -> Slice:
    """`roots`: position in the layer -> channel of the group. Of a grouped convolution's inputs one block stands for all."""
    size = tensor.shape[axis]
    if None in roots.values() or (max(roots) >= size and (min(roots) != 0 or len(roots) % size)):
        raise _Unsupported(f"its channels do not meet those of {key} one to one")
    return Slice(key, axis, tuple(-1 if i not in roots else int(roots[i] or 0) % units for i in range(size)))


def _with_aliases(group: ChannelGroup, module: nn.Module) -> ChannelGroup:
    """Weights that two layers share have two names in the state."""
    state = module.state_dict(keep_vars=True)
    names: dict[int, list[str]] = {}
    for key, tensor in state.items():
        names.setdefault(id(tensor), []).append(key)
    slices = {(alias, s.axis): Slice(alias, s.axis, s.units) for s in group.slices for alias in names[id(state[s.tensor])]}
    return ChannelGroup(group.name, group.channels, group.blocks, tuple(slices.values()), exact=group.exact)


def _costs(module: nn.Module, groups: Iterable[ChannelGroup], image: torch.Tensor) -> Costs:
    axes: dict[str, dict[int, list[tuple[int, Slice]]]] = {}
    for index, group in enumerate(groups):
        for each in group.slices:
            axes.setdefault(each.tensor, {}).setdefault(each.axis, []).append((index, each))
    positions = places_of(module, image)
    tensors = []
    for key, tensor in module.named_parameters():
        governed = axes.get(key, {})
        extents = tuple(_extent(tensor.shape[axis], found) for axis, found in sorted(governed.items()))
        values = math.prod(size for axis, size in enumerate(tensor.shape) if axis not in governed)
        tensors.append(TensorCost(extents, values, positions.get(key, 0)))
    return Costs(tuple(tensors))


def _extent(size: int, found: list[tuple[int, Slice]]) -> Extent:
    parts = []
    for index, each in found:
        taken = [unit for unit in each.units if unit >= 0]
        parts.append((index, len(taken) // len(set(taken))))
        size -= len(taken)
    return Extent(size, tuple(parts))


def _priced(groups: Iterable[ChannelGroup], costs: Costs) -> tuple[ChannelGroup, ...]:
    groups = tuple(groups)
    units = [group.units for group in groups]
    whole = costs.of(units)
    priced = []
    for index, g in enumerate(groups):
        less = costs.of([n - (i == index) for i, n in enumerate(units)])
        priced.append(ChannelGroup(g.name, g.channels, g.blocks, g.slices, whole[0] - less[0], whole[1] - less[1], g.exact))
    return tuple(priced)


def _nothing_left(skipped: Iterable[Skipped]) -> InputError:
    skipped = tuple(skipped)
    first = f"{skipped[0].group}: {skipped[0].why}" if skipped else "all of them are its outputs"
    return InputError(
        f"none of the network's channels can be removed; {first_line(ValueError(first))}",
        where=skipped[0].group if skipped else "",
        fix="leave --prune out, or let the network take channel numbers from shapes: x.shape[1] instead of a number",
        code="prune-trace",
    )

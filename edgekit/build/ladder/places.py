"""Where a network can be cut: behind modules whose output alone carries all that follows.

A value made before the cut that is read behind it, as by a skip connection around it, would have to cross as well. Weights do not
count: each segment holds its own.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, fx, nn

from edgekit.spec.errors import InputError, UnknownName

__all__ = ["WANTED", "Place", "by_time", "candidates", "check_places"]

WANTED = (0.35, 0.65)
"""Shares of the time at which exits pay: the first must come early, the second well before the end."""

aten = torch.ops.aten
TAILS = (
    aten.batch_norm.default,
    aten.relu.default,
    aten.relu_.default,
    aten.relu6.default,
    aten.hardtanh.default,
    aten.hardtanh_.default,
    aten.hardswish.default,
    aten.hardswish_.default,
    aten.hardsigmoid.default,
    aten.silu.default,
    aten.silu_.default,
    aten.sigmoid.default,
    aten.gelu.default,
)
"""Operators that engines run together with the layer in front."""


@dataclass(frozen=True, slots=True)
class Place:
    """A module behind which a network can be cut.

    Attributes:
        name: of the module, such as `blocks.6`.
        shape: (1, channels, height, width) of its output.
    """

    name: str
    shape: tuple[int, ...]

    @property
    def channels(self) -> int:
        """What an exit's head reads."""
        return self.shape[1]


@dataclass(frozen=True, slots=True)
class _Traced:
    """Attributes: nodes in the order they run; the node that each module called once gives; the answer."""

    nodes: tuple[fx.Node, ...]
    made: dict[str, fx.Node]
    image: fx.Node
    answer: fx.Node


def candidates(network: nn.Module, example: Tensor) -> tuple[Place, ...]:
    """All places of a network in the order they run, of several modules with one output the outermost.

    Left out are places that would part a layer from its norm or activation, and those behind the last pooling.

    Args:
        network: (1, 3, h, w) -> (1, classes).
        example: (1, 3, h, w); only its shape matters.
    """
    traced = _trace(network, example)
    found: dict[fx.Node, str] = {}
    for name in sorted(traced.made, key=lambda each: (each.count("."), len(each))):
        found.setdefault(traced.made[name], name)
    return tuple(
        Place(found[node], _shape(node))
        for node in traced.nodes
        if node in found and _is_map(node) and not _parts_a_layer(node) and not _crossing(traced, node)
    )


def check_places(network: nn.Module, names: Sequence[str], example: Tensor) -> tuple[Place, ...]:
    """The named places in the order they run.

    Args:
        network: (1, 3, h, w) -> (1, classes).
        names: of modules.
        example: (1, 3, h, w); only its shape matters.

    Raises:
        UnknownName: the network has no such module; the nearest of those that would do are named.
        InputError: `cut-skip`; values of other modules cross the cut too, and are named. `cut-features`; the module gives no map
            of features, or not exactly one. `cut-twice`; two modules give the same features.
    """
    known = {name for name, _ in network.named_modules() if name}
    for name in names:
        if name not in known:
            raise UnknownName("module to cut behind", name, [place.name for place in candidates(network, example)])
    traced = _trace(network, example)
    for name in names:
        _check(traced, name)
    order = {node: i for i, node in enumerate(traced.nodes)}
    chosen = sorted(names, key=lambda name: order[traced.made[name]])
    for first, second in itertools.pairwise(chosen):
        if traced.made[first] is traced.made[second]:
            raise InputError(
                f"{first} and {second} give the same features",
                where="exits",
                fix=f"leave {second} out",
                code="cut-twice",
            )
    return tuple(Place(name, _shape(traced.made[name])) for name in chosen)


def by_time(shares: Sequence[float], wanted: Sequence[float] = WANTED) -> tuple[int, ...]:
    """Cumulative share of the time behind each candidate, ascending -> the candidates nearest to `wanted`, in order.

    Never by multiplications: 37 % of those of EfficientNet-Lite0 are 52 to 66 % of its time.

    Raises:
        ValueError: fewer candidates than wanted places.
    """
    if len(shares) < len(wanted):
        raise ValueError(f"{len(wanted)} places are wanted of {len(shares)}")
    picked: list[int] = []
    for i, share in enumerate(wanted):
        first = picked[-1] + 1 if picked else 0
        free = range(first, len(shares) - (len(wanted) - 1 - i))
        picked.append(min(free, key=lambda place: abs(shares[place] - share)))
    return tuple(picked)


def _check(traced: _Traced, name: str) -> None:
    node = traced.made.get(name)
    if node is None or not _is_map(node):
        raise InputError(
            f"{name} does not give one map of features (1, channels, height, width), once a photo",
            where=name,
            fix="place the exit behind another module, such as a whole block",
            code="cut-features",
        )
    crossing = _crossing(traced, node)
    if crossing:
        listed = ", ".join(crossing[:4]) + (f" and {len(crossing) - 4} more" if len(crossing) > 4 else "")
        raise InputError(
            f"the network cannot be cut behind {name}: what {listed} gives is read behind the cut as well",
            where=name,
            fix="place the exit where the skip connection ends, such as behind the whole block",
            code="cut-skip",
        )


def _trace(network: nn.Module, example: Tensor) -> _Traced:
    names: list[str] = []
    program = torch.export.export(_Watched(network, names), (example,), strict=False)
    nodes = tuple(n for n in program.graph.nodes if n.op == "call_function")
    image = next(n for n in program.graph.nodes if n.name in program.graph_signature.user_inputs)
    answer, *outputs = next(iter(program.graph.find_nodes(op="output"))).args[0][-len(names) - 1 :]
    made = {name: node for name, node in zip(names, outputs, strict=True) if node.op == "call_function"}
    return _Traced(nodes, made, image, answer)


class _Watched(nn.Module):
    """(1, 3, h, w) -> the answer, then what each module gives that is called once and gives one tensor; fills `names`."""

    def __init__(self, network: nn.Module, names: list[str]) -> None:
        super().__init__()
        self.network = network
        self._found = names.append

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        calls: dict[str, list[object]] = {}
        handles = [
            module.register_forward_hook(lambda _, __, out, name=name: calls.setdefault(name, []).append(out))
            for name, module in self.network.named_modules()
            if name
        ]
        try:
            answer = self.network(x)
        finally:
            for handle in handles:
                handle.remove()
        single = {name: outs[0] for name, outs in calls.items() if len(outs) == 1 and isinstance(outs[0], Tensor)}
        for name in single:
            self._found(name)
        return (answer, *single.values())


def _crossing(traced: _Traced, cut: fx.Node) -> tuple[str, ...]:
    """Modules whose values, besides the cut's own, are made before the cut and read behind it; the image counts as one."""
    wanted = _ancestors(traced.answer)
    before = _ancestors(cut)
    if cut not in wanted:
        return (cut.name,)
    moving = {n for n in traced.nodes if n in before and traced.image in _ancestors(n)} | {traced.image}
    crossing = [n for n in moving if n is not cut and any(u in wanted and u not in before for u in n.users)]
    order = {node: i for i, node in enumerate((traced.image, *traced.nodes))}
    return tuple(dict.fromkeys(_module_of(n, traced) for n in sorted(crossing, key=order.__getitem__)))


def _ancestors(node: fx.Node) -> set[fx.Node]:
    """All that a node depends on, itself included."""
    found: set[fx.Node] = set()
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting.extend(each.all_input_nodes)
    return found


def _module_of(node: fx.Node, traced: _Traced) -> str:
    """The outermost module that gives this value, else the innermost one around it."""
    if node is traced.image:
        return "the image"
    givers = [name for name, made in traced.made.items() if made is node]
    if givers:
        return min(givers, key=len)
    stack = [path for path, _ in node.meta.get("nn_module_stack", {}).values()]
    return stack[-1].removeprefix("network.").removeprefix("L['self'].network.") if stack else node.name


def _is_map(node: fx.Node) -> bool:
    shape = _shape(node)
    return len(shape) == 4 and shape[2] * shape[3] > 1


def _parts_a_layer(node: fx.Node) -> bool:
    readers = [user for user in node.users if user.op == "call_function"]
    return len(readers) == 1 and readers[0].target in TAILS


def _shape(node: fx.Node) -> tuple[int, ...]:
    value = node.meta.get("val")
    return tuple(int(side) for side in value.shape) if isinstance(value, Tensor) else ()

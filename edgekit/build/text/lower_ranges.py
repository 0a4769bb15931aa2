"""Ranges of what flows into and out of linear layers, for payloads whose activations have fixed scales."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from edgekit.build.text.integers import Exportable, fingerprint, names_by_weight
from edgekit.spec.errors import InputError

__all__ = ["Range", "linear_nodes", "measure"]

LEAST_SCALE = 2.0**-16


@dataclass(frozen=True, slots=True)
class Range:
    """Least and greatest value seen; 0.0 is always inside, so that it has a step of its own."""

    low: float
    high: float

    def uint8(self) -> tuple[float, int]:
        """-> scale and zero point of the uint8 grid over the range."""
        scale = max((self.high - self.low) / 255, LEAST_SCALE)
        return scale, min(max(round(-self.low / scale), 0), 255)

    def int8(self) -> tuple[float, int]:
        """-> the same grid with integers moved down by 128."""
        scale, zero = self.uint8()
        return scale, zero - 128


def linear_nodes(graph: fx.GraphModule, names: Mapping[str, str]) -> dict[fx.Node, str]:
    """Linear operators of an exported graph -> names of their layers; `names` are by fingerprint of the weight."""
    found = {}
    for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten.linear.default):
        weight = node.args[1]
        if weight.op == "get_attr" and (name := names.get(fingerprint(_attribute(graph, weight).detach().cpu().numpy()))):
            found[node] = name
    return found


def measure(plain: Exportable, samples: Sequence[torch.Tensor], *, tokens: int) -> dict[str, tuple[Range, Range]]:
    """Texts (n, length) int64, -1 is padding -> range of each linear layer's input and output, over all texts.

    They are padded or cut to `tokens`, so that every payload, of whatever buckets, gets the same ranges.

    Raises:
        InputError: `text-samples`; no text to measure with.
    """
    rows = [row for batch in samples for row in batch]
    if not rows:
        raise InputError(
            "no texts to measure the ranges of activations with",
            where="samples",
            fix="pass some training texts",
            code="text-samples",
        )
    example = (torch.zeros(1, tokens, dtype=torch.int64), torch.ones(1, tokens))
    form = plain.form(tokens=tokens, norm="native", table="float")
    graph = torch.export.export(form, example, strict=False).module(check_guards=False)
    watcher = _Watcher(graph, linear_nodes(graph, names_by_weight(plain.linears())))
    with torch.no_grad():
        for row in rows:
            ids = torch.full((1, tokens), -1, dtype=torch.int64)
            length = min(tokens, len(row))
            ids[0, :length] = row[:length]
            watcher.used = int((ids >= 0).sum())
            watcher.run(ids.clamp(min=0), (ids >= 0).to(torch.float32))
    return {name: (Range(*ends[:2]), Range(*ends[2:])) for name, ends in watcher.ends.items()}


class _Watcher(fx.Interpreter):
    """Runs a graph and keeps the ends of each linear layer's input and output."""

    def __init__(self, graph: fx.GraphModule, layers: Mapping[fx.Node, str]) -> None:
        super().__init__(graph)
        self.layers = layers
        self.used = 0
        self.ends: dict[str, tuple[float, float, float, float]] = {}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        name = self.layers.get(n)
        if name is not None:
            # What padding computes does not reach the answer; a layer behind the pooling has one row.
            x, y = self.env[n.args[0]][: self.used], result[: self.used]
            low, high, least, greatest = self.ends.get(name, (0.0, 0.0, 0.0, 0.0))
            self.ends[name] = (
                min(low, float(x.min())),
                max(high, float(x.max())),
                min(least, float(y.min())),
                max(greatest, float(y.max())),
            )
        return result


def _attribute(graph: fx.GraphModule, node: fx.Node) -> torch.Tensor:
    value: Any = graph
    for part in str(node.target).split("."):
        value = getattr(value, part)
    return value

"""A network with early exits -> its plain form, cut behind the layers where exits sit.

What crosses a cut is the normed state of the layer before it, (tokens, hidden) float32, and nothing else: its gain and shift are
applied again behind the cut, as the folded layers there read the normed state and only the sum around them reads both.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from edgekit.build.text.exits import TextExit
from edgekit.build.text.lowered import example
from edgekit.build.text.network import TextNetwork
from edgekit.build.text.plain import Form, Plain
from edgekit.build.text.rewrite import copied, reading, rewrite
from edgekit.build.text.rungs import LAST, rung_of

__all__ = ["PlainExit", "Segment", "SegmentedText", "segmented"]


class PlainExit(nn.Module):
    """(1, hidden) pooled normed state -> (1, classes): a head whose first layer carries the norm's gain and shift."""

    def __init__(self, dense: nn.Linear | None, linear: nn.Linear) -> None:
        """Take folded layers."""
        super().__init__()
        self.dense, self.linear = dense, linear

    def forward(self, state: Tensor) -> Tensor:
        """See the class."""
        return self.linear(state if self.dense is None else torch.tanh(self.dense(state)))


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """What lies between two cuts, with the answer at its end; the lowerings export it as they do a whole network.

    Attributes:
        plain: the whole network.
        start: layers before it; 0 of the segment that reads token ids.
        end: layers up to its end.
        exit: its answer; None of the last one, which has the network's own.
    """

    plain: Plain
    start: int
    end: int
    exit: PlainExit | None

    @property
    def begins(self) -> bool:
        """Whether it reads token ids; else the features of the segment before."""
        return self.start == 0

    @property
    def ends(self) -> bool:
        """Whether nothing follows, so that it gives no features."""
        return self.exit is None

    @property
    def hidden(self) -> int:
        """Width of the features."""
        return int(self.plain.constant.shape[1])

    @property
    def table(self) -> nn.Embedding:
        """See `Exportable`."""
        return self.plain.table

    def linears(self) -> dict[str, nn.Linear]:
        """See `Exportable`: those of its layers and of its answer."""
        inside = tuple(f"layers.{i}." for i in range(self.start, self.end))
        ours = (*inside, *(("transform",) if self.begins else ()), *(("pooler", "head") if self.ends else ()))
        found = {name: linear for name, linear in self.plain.linears().items() if name.startswith(ours)}
        return found | {f"exits.{self.end}.{name}": layer for name, layer in _layers(self.exit).items()}

    def example(self, tokens: int, *, ids_dtype: torch.dtype = torch.int64) -> tuple[Tensor, Tensor]:
        """Inputs to export with: ids or features, and keep (1, tokens)."""
        ids, keep = example(tokens, ids_dtype=ids_dtype)
        return (ids if self.begins else torch.zeros(tokens, self.hidden)), keep

    def form(self, *, tokens: int | None, norm: str = "matmul", table: str = "float") -> nn.Module:
        """See `Plain.form`: ids or features, and keep -> logits, and features unless it ends."""
        inner = Form(self.plain, tokens=tokens, norm=norm, int8_table=table == "int8" and self.begins)
        return _SegmentForm(inner, self.exit, start=self.start, end=self.end)


class _SegmentForm(nn.Module):
    """See `Segment.form`."""

    def __init__(self, whole: Form, head: PlainExit | None, *, start: int, end: int) -> None:
        super().__init__()
        self.whole, self.head = whole, head
        self.start, self.end = start, end

    def forward(self, x: Tensor, keep: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        h = x if self.start else self.whole.begin(x, keep)
        h = self.whole.through(h, keep, self.start, self.end)
        if self.head is None:
            return self.whole.answer(h, keep)
        return self.head(self.whole.pooled(h, keep)), h


@dataclass(frozen=True, slots=True, eq=False)
class SegmentedText:
    """A network and the heads of its exits, all folded: one thing to round, then to cut.

    Attributes:
        plain: the network.
        exits: number of a layer, from 1 -> the head behind it, ascending.
    """

    plain: Plain
    exits: Mapping[int, PlainExit]

    @property
    def table(self) -> nn.Embedding:
        """See `Exportable`."""
        return self.plain.table

    def linears(self) -> dict[str, nn.Linear]:
        """See `Exportable`: the network's, and those of all heads."""
        heads = {f"exits.{place}.{name}": x for place, head in self.exits.items() for name, x in _layers(head).items()}
        return self.plain.linears() | heads

    def form(self, *, tokens: int | None, norm: str = "matmul", table: str = "float") -> nn.Module:
        """See `Plain.form`: the network uncut."""
        return self.plain.form(tokens=tokens, norm=norm, table=table)

    def segments(self) -> dict[str, Segment]:
        """By name of the rung that each ends, in order."""
        starts = (0, *self.exits)
        ends = (*self.exits.items(), (len(self.plain.layers), None))
        return {
            LAST if head is None else rung_of(end): Segment(self.plain, start, end, head)
            for start, (end, head) in zip(starts, ends, strict=True)
        }


def segmented(network: TextNetwork, heads: Mapping[str, TextExit]) -> SegmentedText:
    """Fold a network and heads behind its layers, as `rewrite` does; weights are copies."""
    exits = {}
    with torch.no_grad():
        for place, head in heads.items():
            norm = network.layers[int(place) - 1].norm2
            if head.dense is None:
                folded = PlainExit(None, reading(head.linear, norm))
            else:
                folded = PlainExit(reading(head.dense, norm), copied(head.linear))
            exits[int(place)] = folded.eval().requires_grad_(False)
    return SegmentedText(rewrite(network), exits)


def _layers(head: PlainExit | None) -> dict[str, nn.Linear]:
    return {} if head is None else dict(head.named_children())

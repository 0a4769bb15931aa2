"""The form in which a network that reads text is exported: the same function in operators that every engine takes whole.

* One text at a time, hidden states (tokens, width); attention as bmm, add, softmax, bmm: the fused operator's decomposition
  guards against rows without any token with operators that XNNPACK refuses, and costs two thirds more time.
* The gain of each norm is folded into the linear layers that read it, the scale of the queries into their layer. A converter
  would fold some of them by itself, and so round other weights than the rest of the world.
* Positions and token type are one constant. Padding is masked by adding -10000 once, computed from a float input.
* Means over channels are products with a one-row matrix where an engine has no layer norm (`norm="matmul"`).
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgekit.build.text.integers import grid_of
from edgekit.build.text.network import activation

__all__ = ["NORMS", "TABLES", "Affine", "Plain", "PlainLayer"]

NORMS = ("native", "matmul")
TABLES = ("float", "int8")

MASKED = 10000.0
"""What a masked score is lowered by: large for a softmax, small enough for float16."""


class Affine(nn.Module):
    """Gain and shift of a norm, for those that are not folded: the sum with what follows, and a pooled state without a head."""

    def __init__(self, gain: Tensor, shift: Tensor, *, epsilon: float | None) -> None:
        """Without epsilon it normalises nothing (MobileBERT)."""
        super().__init__()
        self.gain, self.shift = nn.Parameter(gain), nn.Parameter(shift)
        self.epsilon = epsilon
        # A buffer: to XNNPACK a matrix that is made in the graph is no weight.
        self.register_buffer("mean", torch.full((1, len(gain)), 1 / len(gain)), persistent=False)

    def normed(self, x: Tensor, kind: str) -> Tensor:
        """(tokens, width) -> the same with mean 0 and variance 1 in each row."""
        if self.epsilon is None:
            return x
        if kind == "native":
            return F.layer_norm(x, (x.shape[1],), None, None, self.epsilon)
        centred = x - F.linear(x, self.mean)
        return centred * torch.rsqrt(F.linear(centred * centred, self.mean) + self.epsilon)

    def forward(self, x: Tensor) -> Tensor:
        """(rows, width) normed -> with gain and shift."""
        return x * self.gain + self.shift


class Block(nn.Module):
    """Up, activation, down, and what is added before the next norm: reads a normed state, gives the next one and its sum."""

    def __init__(self, up: nn.Linear, down: nn.Linear, affine: Affine, *, act: str) -> None:
        """Take folded layers."""
        super().__init__()
        self.up, self.down, self.affine, self.act = up, down, affine, activation(act)

    def forward(self, h: Tensor, x: Tensor, norm: str) -> tuple[Tensor, Tensor]:
        """Normed state and state, each (tokens, width) -> the next two."""
        h = self.affine.normed(x + self.down(self.act(self.up(h))), norm)
        return h, self.affine(h)


class PlainLayer(nn.Module):
    """A layer of any of the families; `shrink`, `shared` and `widen` are MobileBERT's way into the narrow inside and back."""

    def __init__(
        self, linears: dict[str, nn.Linear], affine: Affine, blocks: list[Block], *, heads: int, out: Affine | None
    ) -> None:
        """`linears`: q, k, v, o, and all of shrink, shared, widen or none of them; `out` follows `widen`."""
        super().__init__()
        self.heads = heads
        self.linears = nn.ModuleDict(linears)
        self.affine, self.out = affine, out
        self.blocks = nn.ModuleList(blocks)

    def forward(self, h: Tensor, x: Tensor, mask: Tensor, norm: str) -> tuple[Tensor, Tensor]:
        """Normed state and state, each (tokens, width), (1, 1, tokens) -> the next two."""
        inner, source = x, h
        if "shrink" in self.linears:
            inner, source = self.linears["shrink"](h), self.linears["shared"](h)
        y = inner + self._attention(source, h, mask)
        g = self.affine.normed(y, norm)
        z = self.affine(g)
        for block in self.blocks:
            g, z = block(g, z, norm)
        if self.out is None:
            return g, z
        h = self.out.normed(x + self.linears["widen"](g), norm)
        return h, self.out(h)

    def _attention(self, h: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        # Layers that read one tensor directly follow each other: they share its quantization, and XNNPACK's partitioner splits
        # the graph where a reader of one of them stands between them.
        v, q, k = self.linears["v"](values), self.linears["q"](h), self.linears["k"](h)
        q, k, v = (each.reshape(h.shape[0], self.heads, -1) for each in (q, k, v))
        scores = torch.bmm(q.permute(1, 0, 2), k.permute(1, 2, 0)) + mask
        mixed = torch.bmm(torch.softmax(scores, -1), v.permute(1, 0, 2)).permute(1, 0, 2)
        return self.linears["o"](mixed.reshape(h.shape[0], -1))


class Plain(nn.Module):
    """A whole network; `form` gives what is exported.

    Attributes:
        table: the word embedding, (vocabulary, width) float32.
        constant: (positions, hidden) float32: positions, and token type 0.
        transform: MobileBERT's layer over three neighbouring words; None in the others.
        affine: of the norm after the embeddings.
        layers: in order.
        pooler: None where there is none.
        head: None for a sentence embedding.
        last: gain and shift of the last norm, where nothing follows that they are folded into.
    """

    def __init__(
        self,
        table: nn.Embedding,
        constant: Tensor,
        layers: list[PlainLayer],
        *,
        affine: Affine,
        transform: nn.Linear | None,
        pooler: nn.Linear | None,
        head: nn.Linear | None,
        last: Affine | None,
        pooling: str,
        pooler_act: str,
    ) -> None:
        """Take folded layers; see `rewrite`."""
        super().__init__()
        self.table, self.affine, self.transform = table, affine, transform
        self.register_buffer("constant", constant)
        self.layers = nn.ModuleList(layers)
        self.pooler, self.head, self.last = pooler, head, last
        self.pooling, self.pooler_act = pooling, activation(pooler_act)

    def affine_before(self, layer: int) -> Affine:
        """Gain and shift that make the state before a layer of its normed state; layers count from 0."""
        if layer == 0:
            return self.affine
        before = self.layers[layer - 1]
        return before.blocks[-1].affine if before.out is None else before.out

    def linears(self) -> dict[str, nn.Linear]:
        """Linear layers that may be quantized, by name, in order of execution."""
        return dict(self._linears())

    def _linears(self) -> Iterator[tuple[str, nn.Linear]]:
        if self.transform is not None:
            yield "transform", self.transform
        for i, layer in enumerate(self.layers):
            for name in ("shrink", "shared", "v", "q", "k", "o"):
                if name in layer.linears:
                    yield f"layers.{i}.{name}", layer.linears[name]
            for j, block in enumerate(layer.blocks):
                place = f"layers.{i}" if len(layer.blocks) == 1 else f"layers.{i}.{j}"
                yield f"{place}.up", block.up
                yield f"{place}.down", block.down
            if "widen" in layer.linears:
                yield f"layers.{i}.widen", layer.linears["widen"]
        for name, linear in (("pooler", self.pooler), ("head", self.head)):
            if linear is not None:
                yield name, linear

    def form(self, *, tokens: int | None, norm: str = "matmul", table: str = "float") -> nn.Module:
        """A module over the same parameters: ids (1, n) integer, keep (1, n) float32 0 or 1 -> (1, outputs) float32.

        Args:
            tokens: n; None exports for any n.
            norm: one of `NORMS`.
            table: `float`, or `int8`: the word embedding on its own int8 grid, a row at a time, by plain operators.
        """
        if norm not in NORMS or table not in TABLES:
            raise ValueError(f"no form {norm!r} with a table {table!r}")
        return Form(self, tokens=tokens, norm=norm, int8_table=table == "int8")


class Form(nn.Module):
    """See `Plain.form`."""

    def __init__(self, plain: Plain, *, tokens: int | None, norm: str, int8_table: bool) -> None:
        """Share the parameters of `plain`."""
        super().__init__()
        self.plain, self.tokens, self.norm = plain, tokens, norm
        self.int8_table = int8_table
        self.register_buffer("gap", torch.zeros(1, plain.table.embedding_dim), persistent=False)
        if int8_table:
            grid = grid_of(plain.table.weight)
            self.register_buffer("values", torch.from_numpy(grid.values))
            self.register_buffer("scale", torch.from_numpy(grid.scales)[:, None])

    def forward(self, ids: Tensor, keep: Tensor) -> Tensor:
        """See `Plain.form`."""
        return self.answer(self.through(self.begin(ids, keep), keep, 0, len(self.plain.layers)), keep)

    def begin(self, ids: Tensor, keep: Tensor) -> Tensor:
        """(1, tokens), (1, tokens) -> (tokens, hidden): the normed state that the first layer reads."""
        return self.plain.affine.normed(self._embedded(ids, keep), self.norm)

    def through(self, h: Tensor, keep: Tensor, start: int, end: int) -> Tensor:
        """Normed state before layer `start` -> the one before layer `end`, each (tokens, hidden); layers count from 0."""
        x = self.plain.affine_before(start)(h)
        mask = ((keep - 1.0) * MASKED).reshape(1, 1, -1)
        for layer in self.plain.layers[start:end]:
            h, x = layer(h, x, mask, self.norm)
        return h

    def answer(self, h: Tensor, keep: Tensor) -> Tensor:
        """Normed state of the last layer -> (1, outputs)."""
        plain = self.plain
        state = self.pooled(h, keep)
        if plain.pooler is not None:
            state = plain.pooler_act(plain.pooler(state))
        if plain.head is not None:
            return plain.head(state)
        if plain.last is not None:
            state = plain.last(state)
        # To unit length; XNNPACK has no norm and no reciprocal.
        return state * torch.rsqrt(torch.bmm(state.reshape(1, 1, -1), state.reshape(1, -1, 1)).reshape(1, 1))

    def _embedded(self, ids: Tensor, keep: Tensor) -> Tensor:
        plain = self.plain
        if self.int8_table:
            x = F.embedding(ids, self.values).to(torch.float32) * F.embedding(ids, self.scale)
        else:
            x = plain.table(ids)
        x = x.reshape(ids.shape[1], -1)
        if plain.transform is not None:
            x = x * keep.reshape(-1, 1)
            x = plain.transform(torch.cat((torch.cat((x[1:], self.gap)), x, torch.cat((self.gap, x[:-1]))), 1))
        n = ids.shape[1] if self.tokens is None else self.tokens
        return x + plain.constant[:n]

    def pooled(self, h: Tensor, keep: Tensor) -> Tensor:
        """(tokens, hidden), (1, tokens) -> (1, hidden)."""
        if self.plain.pooling == "cls":
            return h[:1]
        kept = keep.reshape(1, 1, -1)
        total = torch.bmm(kept, h.reshape(1, h.shape[0], -1)).reshape(1, -1)
        count = torch.bmm(kept, keep.reshape(1, -1, 1)).reshape(1, 1)
        # A division, where there is no reciprocal.
        return total * torch.rsqrt(count * count)

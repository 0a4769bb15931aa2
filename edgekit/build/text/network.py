"""A BERT-like encoder that can be trained: batches of token ids in, logits or sentence embeddings out.

Sources: Devlin et al., BERT (arXiv 1810.04805); Sanh et al., DistilBERT (arXiv 1910.01108), the same without token types; Reimers
and Gurevych, Sentence-BERT (arXiv 1908.10084), for the mean over tokens. MobileBERT's layers are in `mobilebert`.
"""

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgekit.build.text.config import TextConfig

__all__ = ["Attention", "Layer", "Scale", "TextNetwork", "activation", "initialise"]

DROPOUT = 0.1
"""Of hidden states and attention, while training, as in BERT (appendix A.2)."""

INITIAL_DEVIATION = 0.02
"""Of new weights, as in BERT."""


class TextNetwork(nn.Module):
    """(n, tokens) int64 ids, -1 for padding -> (n, outputs) float32 logits; with 0 outputs (n, hidden) of unit length."""

    def __init__(self, config: TextConfig, outputs: int) -> None:
        """Random weights, drawn from torch's generator."""
        super().__init__()
        from edgekit.build.text.mobilebert import MobileLayer, TrigramEmbeddings

        mobile = config.family == "mobilebert"
        self.config = config
        self.outputs = outputs
        self.embeddings: nn.Module = TrigramEmbeddings(config) if mobile else Embeddings(config)
        self.layers = nn.ModuleList(MobileLayer(config) if mobile else Layer(config) for _ in range(config.layers))
        self.pooler = nn.Linear(config.hidden, config.hidden) if config.pooler and outputs else None
        self.head = nn.Linear(config.hidden, outputs) if outputs else None
        self.dropout = nn.Dropout(DROPOUT)
        self.apply(initialise)

    def forward(self, ids: Tensor) -> Tensor:
        """See the class."""
        return self.answer(self.pooled(ids))

    def answer(self, state: Tensor) -> Tensor:
        """(n, hidden) pooled state of the last layer -> (n, outputs)."""
        if self.head is None:
            return F.normalize(state, dim=1)
        if self.pooler is not None:
            state = activation(self.config.pooler)(self.pooler(state))
        return self.head(self.dropout(state))

    def states(self, ids: Tensor) -> Tensor:
        """(n, tokens) ids -> (n, tokens, hidden) of the last layer."""
        *_, last = self.each_state(ids)
        return last

    def each_state(self, ids: Tensor) -> Iterator[Tensor]:
        """(n, tokens) ids -> (n, tokens, hidden) before the first layer, then behind each, as far as they are asked for."""
        keep = ids >= 0
        x = self.dropout(self.embeddings(ids.clamp_min(0), keep))
        yield x
        for layer in self.layers:
            x = layer(x, keep)
            yield x

    def pooled(self, ids: Tensor) -> Tensor:
        """(n, tokens) ids -> (n, hidden) of the last layer, see `pool`."""
        return self.pool(self.states(ids), ids)

    def pool(self, x: Tensor, ids: Tensor) -> Tensor:
        """(n, tokens, hidden) states of (n, tokens) ids -> (n, hidden): the mean over tokens, or the first one's state."""
        if self.config.pooling == "cls":
            return x[:, 0]
        keep = (ids >= 0).unsqueeze(2).to(x.dtype)
        return (x * keep).sum(1) / keep.sum(1).clamp_min(1)


class Scale(nn.Module):
    """Scale and shift of each channel in place of a norm (MobileBERT, section 3.3: NoNorm)."""

    def __init__(self, size: int) -> None:
        """Neither scales nor shifts at first."""
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor) -> Tensor:
        """(..., size) -> the same shape."""
        return x * self.weight + self.bias


class Embeddings(nn.Module):
    """(n, tokens) ids -> (n, tokens, hidden): words, positions and, in BERT, the first token type."""

    def __init__(self, config: TextConfig) -> None:
        """Random tables."""
        super().__init__()
        self.words = nn.Embedding(config.vocabulary, config.hidden)
        self.positions = nn.Embedding(config.positions, config.hidden)
        self.types = nn.Embedding(2, config.hidden) if config.family == "bert" else None
        self.norm = nn.LayerNorm(config.hidden, eps=config.epsilon)

    def forward(self, ids: Tensor, keep: Tensor) -> Tensor:
        """`keep` is not looked at."""
        x = self.words(ids) + self.positions.weight[: ids.shape[1]]
        if self.types is not None:
            x = x + self.types.weight[0]
        return self.norm(x)


class Attention(nn.Module):
    """Multi-head attention: queries and keys from one input, values from another."""

    def __init__(self, *, inputs: int, values: int, width: int, heads: int) -> None:
        """Random weights."""
        super().__init__()
        self.heads = heads
        self.q, self.k = nn.Linear(inputs, width), nn.Linear(inputs, width)
        self.v, self.o = nn.Linear(values, width), nn.Linear(width, width)

    def forward(self, x: Tensor, values: Tensor, keep: Tensor) -> Tensor:
        """(n, tokens, inputs), (n, tokens, values), (n, tokens) bool -> (n, tokens, width)."""
        n, tokens = keep.shape
        q, k, v = (t.view(n, tokens, self.heads, -1).transpose(1, 2) for t in (self.q(x), self.k(x), self.v(values)))
        rate = DROPOUT if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=keep[:, None, None], dropout_p=rate)
        return self.o(mixed.transpose(1, 2).reshape(n, tokens, -1))


class Layer(nn.Module):
    """Attention and feed-forward, each added to its input and then normed."""

    def __init__(self, config: TextConfig) -> None:
        """Random weights."""
        super().__init__()
        d = config.hidden
        self.attention = Attention(inputs=d, values=d, width=d, heads=config.heads)
        self.norm1 = nn.LayerNorm(d, eps=config.epsilon)
        self.up, self.down = nn.Linear(d, config.intermediate), nn.Linear(config.intermediate, d)
        self.norm2 = nn.LayerNorm(d, eps=config.epsilon)
        self.act = activation(config.activation)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        """(n, tokens, hidden), (n, tokens) bool -> (n, tokens, hidden)."""
        x = self.norm1(x + self.dropout(self.attention(x, x, keep)))
        return self.norm2(x + self.dropout(self.down(self.act(self.up(x)))))


def activation(name: str) -> nn.Module:
    """`gelu`, `relu` or `tanh`; nothing for an empty name."""
    return {"gelu": nn.GELU, "relu": nn.ReLU, "tanh": nn.Tanh, "": nn.Identity}[name]()


def initialise(layer: nn.Module) -> None:
    """As BERT: a narrow normal distribution; biases at zero."""
    if isinstance(layer, nn.Linear | nn.Embedding):
        nn.init.trunc_normal_(layer.weight, std=INITIAL_DEVIATION, a=-2 * INITIAL_DEVIATION, b=2 * INITIAL_DEVIATION)
    if isinstance(layer, nn.Linear):
        nn.init.zeros_(layer.bias)


def scaled(width: int, heads: int) -> float:
    """What queries are divided by: the root of a head's width."""
    return math.sqrt(width // heads)

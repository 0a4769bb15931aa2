"""MobileBERT: narrow inside its layers, wide between them. Source: Sun et al. (arXiv 2004.02984), section 3 and figure 1."""

import torch
from torch import Tensor, nn

from edgekit.build.text.config import TextConfig
from edgekit.build.text.network import Attention, Scale, activation

__all__ = ["MobileLayer", "TrigramEmbeddings"]

EPSILON = 1e-5
"""Of the layer norms after the embeddings and after the last feed-forward of a layer: Hugging Face's MobileBERT does not give
these two the epsilon of its configuration."""


class TrigramEmbeddings(nn.Module):
    """(n, tokens) ids -> (n, tokens, hidden): each token sees its two neighbours in a narrow table."""

    def __init__(self, config: TextConfig) -> None:
        """Random tables."""
        super().__init__()
        self.words = nn.Embedding(config.vocabulary, config.embedding)
        self.transform = nn.Linear(3 * config.embedding, config.hidden)
        self.positions = nn.Embedding(config.positions, config.hidden)
        self.types = nn.Embedding(2, config.hidden)
        self.norm = _norm(config, config.hidden, epsilon=EPSILON)

    def forward(self, ids: Tensor, keep: Tensor) -> Tensor:
        """Padding counts as no token, so that the last token's answer does not depend on how far a text is padded."""
        x = self.words(ids) * keep.unsqueeze(2)
        gap = x.new_zeros(x.shape[0], 1, x.shape[2])
        x = self.transform(torch.cat((torch.cat((x[:, 1:], gap), 1), x, torch.cat((gap, x[:, :-1]), 1)), 2))
        return self.norm(x + self.positions.weight[: ids.shape[1]] + self.types.weight[0])


class Narrow(nn.Module):
    """A linear layer and a norm."""

    def __init__(self, inputs: int, outputs: int, *, norm: nn.Module) -> None:
        """Random weights."""
        super().__init__()
        self.linear, self.norm = nn.Linear(inputs, outputs), norm

    def forward(self, x: Tensor) -> Tensor:
        """(..., inputs) -> (..., outputs)."""
        return self.norm(self.linear(x))


class FeedForward(nn.Module):
    """Up, activation, down, added to the input, normed."""

    def __init__(self, config: TextConfig, *, epsilon: float) -> None:
        """Random weights."""
        super().__init__()
        self.up, self.down = nn.Linear(config.bottleneck, config.intermediate), nn.Linear(config.intermediate, config.bottleneck)
        self.norm = _norm(config, config.bottleneck, epsilon=epsilon)
        self.act = activation(config.activation)

    def forward(self, x: Tensor) -> Tensor:
        """(..., bottleneck) -> the same shape."""
        return self.norm(x + self.down(self.act(self.up(x))))


class MobileLayer(nn.Module):
    """Through the bottleneck: attention, several feed-forwards, and back; added to the input, normed."""

    def __init__(self, config: TextConfig) -> None:
        """Random weights."""
        super().__init__()
        wide, narrow = config.hidden, config.bottleneck
        self.shrink = Narrow(wide, narrow, norm=_norm(config, narrow))
        self.shared = Narrow(wide, narrow, norm=_norm(config, narrow))
        self.attention = Attention(inputs=narrow, values=wide, width=narrow, heads=config.heads)
        self.norm1 = _norm(config, narrow)
        epsilons = (*(config.epsilon for _ in range(config.feed_forwards - 1)), EPSILON)
        self.feed_forwards = nn.ModuleList(FeedForward(config, epsilon=each) for each in epsilons)
        self.widen = nn.Linear(narrow, wide)
        self.norm2 = _norm(config, wide)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        """(n, tokens, hidden), (n, tokens) bool -> (n, tokens, hidden)."""
        y = self.norm1(self.shrink(x) + self.attention(self.shared(x), x, keep))
        for feed_forward in self.feed_forwards:
            y = feed_forward(y)
        return self.norm2(x + self.widen(y))


def _norm(config: TextConfig, size: int, *, epsilon: float | None = None) -> nn.Module:
    return Scale(size) if config.no_norm else nn.LayerNorm(size, eps=config.epsilon if epsilon is None else epsilon)

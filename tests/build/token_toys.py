"""A toy problem for the tests of training on texts: ids of a tiny vocabulary, and a network that learns them in a second."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from edgekit.build.data import Tokens
from edgekit.build.training.lesson import Lesson
from edgekit.build.training.plan import Training

VOCABULARY, MAX_TOKENS = 16, 20
CLASSES = ("asks", "begs", "complains")
TRAINING = Training(
    epochs=3, batch_size=12, micro_batch=12, learning_rate=1e-2, weight_decay=0.02, patience=0, seed=3, augment=False
)


@dataclass(frozen=True)
class ToyFacts:
    """All that the trainer asks of a network."""

    name: str = "reader"
    classes: int = 3


FACTS = ToyFacts()


class Reader(nn.Module):
    """(n, length) int64 with -1 for padding -> (n, classes): a mean of embeddings and dropout."""

    def __init__(self, *, width=8, classes=3, dropout=0.2):
        super().__init__()
        self.table, self.hidden = nn.Embedding(VOCABULARY, width), nn.Linear(width, width)
        self.dropout, self.head = nn.Dropout(dropout), nn.Linear(width, classes)

    def forward(self, ids):
        keep = (ids >= 0).float().unsqueeze(2)
        h = torch.tanh(self.hidden(self.table(ids.clamp_min(0)))) * keep
        return self.head(self.dropout(h.sum(1) / keep.sum(1)))


def reader(seed=0, **options):
    torch.manual_seed(seed)
    return Reader(**options)


def draw_tokens(*, each=20, seed=0, name="toy"):
    """Noise of 5..15, and a quarter of it the class's own word (2, 3 or 4); 3 to 20 tokens."""
    rng = np.random.default_rng(seed)
    ids, labels = [], []
    for label in range(3):
        for _ in range(each):
            text = rng.integers(5, VOCABULARY, int(rng.integers(3, MAX_TOKENS + 1)))
            text[rng.choice(len(text), 1 + len(text) // 4, replace=False)] = 2 + label
            ids.append(tuple(int(i) for i in text))
            labels.append(label)
    return Tokens(name, tuple(ids), MAX_TOKENS, tuple(labels), CLASSES)


def token_lesson(*, each=20, **options):
    return Lesson(draw_tokens(each=each), draw_tokens(each=6, seed=1), FACTS, **options)


def plan(**changes):
    return replace(TRAINING, **changes)

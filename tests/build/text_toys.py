"""Small text networks with random weights: they prove plumbing, not answers."""

import numpy as np
import torch

from edgekit.build.text.config import TextConfig
from edgekit.build.text.network import TextNetwork
from edgekit.build.text.plain import Plain
from edgekit.build.text.rewrite import rewrite

BERT = TextConfig(
    family="bert", vocabulary=200, hidden=64, layers=1, heads=4, intermediate=256, positions=40, epsilon=1e-12, activation="gelu"
)


def toy(config: TextConfig = BERT, *, outputs: int = 5) -> Plain:
    """The same random network each time; its norms have gains of their own."""
    torch.manual_seed(0)
    network = TextNetwork(config, outputs).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return rewrite(network)


def text(tokens: int, *, used: int) -> tuple[np.ndarray, np.ndarray]:
    """ids (1, tokens) int64 and keep (1, tokens) float32 of a text of `used` tokens."""
    ids = np.random.default_rng(tokens).integers(1, 200, (1, tokens))
    keep = np.zeros((1, tokens), np.float32)
    keep[:, :used], ids[:, used:] = 1, 0
    return ids, keep


def answer(plain: Plain, ids: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """What torch gives, in float32."""
    with torch.inference_mode():
        return plain.form(tokens=ids.shape[1], norm="native")(torch.from_numpy(ids), torch.from_numpy(keep)).numpy()


def texts() -> tuple[torch.Tensor, ...]:
    """(32, 16) int64 of texts to calibrate with, short and long: the pooled state of a short one reaches further."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(1, 200, (32, 16), generator=generator)
    lengths = torch.randint(4, 16, (32, 1), generator=generator)
    return (ids.where(torch.arange(16) < lengths, torch.tensor(-1)),)

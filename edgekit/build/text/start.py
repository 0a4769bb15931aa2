"""Where a student of random weights begins: with its teacher's words."""

import torch

from edgekit.build.text.network import TextNetwork

__all__ = ["inherit_words"]

DEVIATION = 0.5
"""Of the inherited table. MobileBERT has no norm that would bring it to a size of its own; at BERT's 0.02 it hardly learns."""


def inherit_words(student: TextNetwork, teacher: TextNetwork) -> bool:
    """Give a student the principal components of its teacher's word table, in place; False where its own table is wider.

    A few thousand texts do not teach what 30,000 words mean; a student that begins with random ones learns the texts by heart.
    MobileBERT, taught by MiniLM on banking77, answers 40.6 % of the texts to tune right after one epoch, and 1.8 % without.

    Args:
        student: of random weights.
        teacher: with the same vocabulary.
    """
    words, taught = _words(student), _words(teacher).detach()
    if words.shape[0] != taught.shape[0] or words.shape[1] > taught.shape[1]:
        return False
    centred = taught - taught.mean(0)
    # Components of the columns' covariance: the table itself is too tall to decompose.
    _, directions = torch.linalg.eigh((centred.T @ centred).double())
    small = centred @ directions.flip(1)[:, : words.shape[1]].to(centred.dtype)
    with torch.no_grad():
        words.copy_(small * (DEVIATION / small.std()))
    return True


def _words(network: TextNetwork) -> torch.Tensor:
    table: torch.Tensor = network.embeddings.words.weight  # type: ignore[union-attr]
    return table

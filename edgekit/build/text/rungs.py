"""Names of the rungs of a network that reads text; free of torch."""

__all__ = ["LAST", "rung_of"]

LAST = "last"
"""Of the rung that gives the network's own answer."""


def rung_of(layer: int | str) -> str:
    """Of the rung that ends with the exit behind a layer."""
    return f"exit{layer}"

"""How a network is quantized, as a value: each field is one decision, and the whole is part of a stage's key."""

from dataclasses import dataclass

__all__ = ["OBSERVERS", "PLAIN", "Recipe"]

OBSERVERS = ("minmax", "histogram", "percentile", "mse")
"""What may set the range of an activation; see `observers.py`."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Static INT8.

    Attributes:
        observer: one of `OBSERVERS`.
        equalise: scale channels so that those of a tensor have like ranges, without changing the function.
        rounding: round weights on the inputs they see (GPTQ) instead of to the nearest step.
        bias_correction: take the mean error of each layer out by its bias.
        float_layers: names of convolutions and linear layers, as `quantizer.LINEARS` nodes of the exported graph are named, that
            stay in float.
    """

    observer: str = "histogram"
    equalise: bool = False
    rounding: bool = True
    bias_correction: bool = True
    float_layers: tuple[str, ...] = ()


PLAIN = Recipe(observer="minmax", rounding=False, bias_correction=False)
"""Plain post-training quantization, as most tools do it: what the repairs are held against."""

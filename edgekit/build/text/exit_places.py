"""Behind which layers of a network that reads text an early exit may sit: decided before anything slow."""

from collections.abc import Sequence

from edgekit.spec.errors import InputError

__all__ = ["exit_layers"]

SHARES = (1 / 3, 2 / 3)
"""Of the layers: the first exit must come early to save something, the second well before the end."""


def exit_layers(layers: int, after: Sequence[str]) -> tuple[int, ...]:
    """Numbers of layers as they were asked for -> the same as integers, ascending, each once; none takes the usual ones.

    Args:
        layers: of the network.
        after: numbers from 1.

    Raises:
        InputError: `exit-layer`; no such layer, or behind the last, where the network itself answers.
    """
    valid = range(1, layers)
    if not valid:
        raise InputError(
            f"a network of {layers} layer has no place for an early exit",
            where="--adaptive",
            fix="leave --adaptive out, or take a network of two layers or more",
            code="exit-layer",
        )
    if not after:
        return tuple(sorted({min(max(round(share * layers), 1), layers - 1) for share in SHARES}))
    wrong = [place for place in after if not (place.isascii() and place.isdigit() and int(place) in valid)]
    if wrong:
        raise InputError(
            f"there is no layer {', '.join(wrong)} for an early exit to follow: the network has {layers} layers",
            where="--exits-after",
            fix=f"name layers from 1 to {layers - 1}: {','.join(map(str, valid))}",
            code="exit-layer",
        )
    return tuple(sorted({int(place) for place in after}))

"""From logits to named, scored answers."""

import numpy as np
from numpy.typing import NDArray

from edgekit.runtime.engines import Tensor
from edgekit.runtime.results import Label
from edgekit.spec.errors import BundleError
from edgekit.spec.manifest import TensorSpec

__all__ = ["best_labels", "probabilities", "read_labels"]


def probabilities(logits: Tensor, spec: TensorSpec) -> NDArray[np.float64]:
    """(classes,) logits as the engine gave them -> (classes,) softmax of the real values."""
    # The zero point cancels against the maximum, so only the scale is needed.
    steps = logits.astype(np.float64)
    steps -= steps.max()
    if spec.scale is not None:
        steps *= spec.scale
    exps = np.exp(steps, out=steps)
    exps /= exps.sum()
    return exps


def best_labels(logits: Tensor, spec: TensorSpec, *, names: tuple[str, ...], top: int) -> tuple[Label, ...]:
    """(classes,) logits -> the `top` best, best first; of equal ones the lower index first, as on every reader."""
    scores = probabilities(logits, spec)
    # Order by logits, not by scores: two logits that differ can have the same rounded score.
    keys = logits.astype(np.int16) if logits.dtype.kind in "iu" else logits.astype(np.float64)
    order = np.argsort(-keys, kind="stable")[:top]
    return tuple(Label(names[i] if names else str(i), float(scores[i]), i) for i in order.tolist())


def read_labels(raw: bytes, *, classes: int, where: str) -> tuple[str, ...]:
    """UTF-8 text, one label a line -> labels.

    Raises:
        BundleError: not UTF-8, or not one line a class.
    """
    try:
        names = tuple(raw.decode("utf-8").removesuffix("\n").split("\n"))
    except UnicodeDecodeError as error:
        raise BundleError(
            f"labels are not UTF-8: {error}", where=where, fix="rebuild the bundle", code="bundle-labels"
        ) from error
    if len(names) != classes:
        raise BundleError(
            f"{len(names)} labels for {classes} classes", where=where, fix="rebuild the bundle", code="bundle-labels"
        )
    return names

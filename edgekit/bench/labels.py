"""Bring the classes of a data set and those of a network together."""

from collections.abc import Sequence

import numpy as np

from edgekit.runtime.decode import read_labels
from edgekit.spec.bundle import BundleReader
from edgekit.spec.errors import InputError

__all__ = ["match_labels"]


def match_labels(labels: Sequence[int] | None, classes: Sequence[str], reader: BundleReader) -> tuple[np.ndarray | None, str]:
    """Labels of the data -> ((n,) class indices of the network or None, why there are none).

    Without class names the labels are the network's indices already. Names are looked up in the bundle's labels; where they are
    not there, their alphabetical order counts if there are as many as the network has classes.

    Raises:
        InputError: an index that the network does not have.
    """
    n_classes = reader.manifest.model.classes
    if labels is None:
        return None, "the data is not labelled"
    if not classes:
        if max(labels) >= n_classes:
            raise InputError(
                f"class index {max(labels)} of a network with {n_classes} classes",
                where="labels of the data",
                fix="give indices of the network's own classes",
                code="data-labels",
            )
        return np.asarray(labels), ""
    known = {name: i for i, name in enumerate(_names(reader))}
    if all(name in known for name in classes):
        return np.asarray([known[classes[label]] for label in labels]), ""
    if len(classes) == n_classes:
        return np.asarray(labels), ""
    strange = next((name for name in classes if name not in known), "")
    return None, f"class {strange!r} of the data is not a label of the bundle: accuracy is not judged"


def _names(reader: BundleReader) -> tuple[str, ...]:
    name = reader.manifest.labels
    if name is None:
        return ()
    return read_labels(reader.read(name), classes=reader.manifest.model.classes, where=name)

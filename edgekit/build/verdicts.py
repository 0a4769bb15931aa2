"""Answers of payloads and of the float network -> what may be promised of each payload."""

from collections.abc import Mapping, Sequence

import numpy as np

from edgekit.bench.promise import Promise, promise
from edgekit.build.gates import Pair, check_pairs
from edgekit.build.stages.answer import Answers
from edgekit.runtime.verify import compare

__all__ = ["class_indices", "pairs_agree", "promises"]


def class_indices(data_classes: Sequence[str], labels: Sequence[str], outputs: int) -> tuple[int, ...] | None:
    """Index of the network's output for each class of the data; None where they are not the same classes.

    Args:
        data_classes: names of the data's classes; empty if its labels are the network's own indices.
        labels: names of the network's classes; may be empty.
        outputs: of the network.
    """
    if not data_classes:
        return tuple(range(outputs))
    if set(data_classes) <= set(labels):
        return tuple(list(labels).index(name) for name in data_classes)
    return tuple(range(outputs)) if len(data_classes) == outputs else None


def promises(reference: Answers, answers: Answers, indices: tuple[int, ...] | None) -> Mapping[str, Promise]:
    """A promise for every payload; without labels, of agreement with the float network.

    Args:
        reference: the float network's answers.
        answers: the payloads', to the same photos.
        indices: network output of each label; None judges agreement.
    """
    (wanted,) = (logits.argmax(1) for logits in reference.logits.values())
    labels = None if reference.labels is None or indices is None else np.asarray(indices)[reference.labels]
    found = {}
    for name, logits in answers.logits.items():
        best = logits.reshape(len(logits), -1).argmax(1)
        if labels is None:
            found[name] = promise(np.ones(len(best), bool), best == wanted)
        else:
            found[name] = promise(wanted == labels, best == labels)
    return found


def pairs_agree(answers: Answers) -> None:
    """Hold INT8 payloads against each other.

    Raises:
        GoalError: `parity`.
    """
    names = [name for name in answers.logits if name.endswith("-int8")]
    pairs = []
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            far = compare(answers.logits[a], answers.logits[b])
            pairs.append(Pair(a, b, far.agreement_top1, far.mean_steps, far.max_steps))
    check_pairs(pairs)

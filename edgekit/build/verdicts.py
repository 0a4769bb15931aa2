"""Answers of payloads and of the float network -> what may be promised of each payload."""

from collections.abc import Mapping

import numpy as np

from edgekit.bench.promise import Promise, promise
from edgekit.build.gates import Pair, check_pairs
from edgekit.build.likeness import check_alike
from edgekit.build.stages.answer import Answers
from edgekit.runtime.verify import compare

__all__ = ["pairs_agree", "promises"]


def promises(reference: Answers, answers: Answers) -> Mapping[str, Promise]:
    """A promise for every payload; without labels, of agreement with the float network.

    Args:
        reference: the float network's answers.
        answers: the payloads', to the same photos.
    """
    (wanted,) = (logits.argmax(1) for logits in reference.logits.values())
    labels = reference.labels
    found = {}
    for name, logits in answers.logits.items():
        best = logits.reshape(len(logits), -1).argmax(1)
        if labels is None:
            found[name] = promise(np.ones(len(best), bool), best == wanted)
        else:
            found[name] = promise(wanted == labels, best == labels)
    return found


def pairs_agree(answers: Answers) -> None:
    """Hold INT8 payloads against each other: integers by steps, floats by their distance.

    Raises:
        GoalError: `parity`.
    """
    names = [name for name in answers.logits if name.endswith("-int8")]
    floats = {name: answers.logits[name] for name in names if answers.logits[name].dtype.kind == "f"}
    check_alike(floats)
    names = [name for name in names if name not in floats]
    pairs = []
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            far = compare(answers.logits[a], answers.logits[b])
            pairs.append(Pair(a, b, far.agreement_top1, far.mean_steps, far.max_steps))
    check_pairs(pairs)

"""What a stage that trained tells: of the network, and of how it went."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import nn

from edgekit.build.data import Texts
from edgekit.build.facts import Facts
from edgekit.build.training.lesson import Trained
from edgekit.build.training.material import Data, NetworkFacts

__all__ = ["classes_of", "entry", "facts_after", "merged", "state_digest"]

F = TypeVar("F", Facts, Any)
"""Facts of a network that reads photos or texts."""


def classes_of(data: Data | Texts, facts: NetworkFacts) -> int:
    """Outputs that a network for this data needs: one a named class; without names at least one more than the highest label."""
    if data.classes:
        return len(data.classes)
    highest = max(data.labels or (-1,))
    return max(facts.classes, highest + 1)


def state_digest(module: nn.Module) -> str:
    """SHA-256 over names, types, shapes and bytes of all weights."""
    total = hashlib.sha256()
    for key, value in sorted(module.state_dict().items()):
        plain = value.detach().cpu().contiguous()
        total.update(f"{key} {plain.dtype} {tuple(plain.shape)}\n".encode())
        total.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b"")
    return total.hexdigest()


def facts_after(facts: F, module: nn.Module, data: Data, *, classes: int, weights: str) -> F:
    """Of a network that was trained on `data`, which names the classes now; without names, known ones stay."""
    facts = facts.with_classes(classes)
    if data.classes:
        # A network that reads text has no built-in label list.
        facts = replace(facts, names=data.classes, **({"labels": None} if isinstance(facts, Facts) else {}))
    return replace(facts, weights=weights, weights_sha256=state_digest(module))


def entry(trained: Trained, count: int, *, of: str = "photos") -> dict[str, Any]:
    """For `history.json`: the same whenever the training is the same, so without times."""
    return {
        of: count,
        "steps": trained.steps,
        "epochs": trained.epochs,
        "best_epoch": trained.best_epoch,
        "stopped_early": trained.stopped_early,
        "train_loss": [epoch.train_loss for epoch in trained.history],
        "tune_loss": [epoch.tune_loss for epoch in trained.history],
        "tune_top1": [epoch.tune_top1 for epoch in trained.history],
    }


def merged(history: Mapping[str, Any], name: str, told: Mapping[str, Any]) -> dict[str, Any]:
    """`history` and one entry more; a second of a name becomes `name-2`."""
    names = [name, *(f"{name}-{i}" for i in range(2, len(history) + 2))]
    return {**history, next(n for n in names if n not in history): dict(told)}

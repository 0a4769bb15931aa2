"""A checkpoint artifact: weights, facts and structure of a float network, and how it was trained."""

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from edgekit.build.construct import make_network
from edgekit.build.facts import Facts, read_facts, write_facts
from edgekit.build.network import Network
from edgekit.build.structure import Structure, read_structure, reshape, write_structure

__all__ = ["HISTORY", "WEIGHTS", "read_checkpoint", "read_history", "write_checkpoint"]

WEIGHTS = "weights.pt"
HISTORY = "history.json"


def write_checkpoint(
    out: Path, module: nn.Module, facts: Facts, *, structure: Structure | None = None, history: Mapping[str, Any] | None = None
) -> None:
    """Write a network into `out`; `history` is what the stages that trained it tell, by stage."""
    # On a full disk torch's own writer ends the whole process.
    buffer = io.BytesIO()
    torch.save({key: value.cpu() for key, value in module.state_dict().items()}, buffer)
    (out / WEIGHTS).write_bytes(buffer.getbuffer())
    write_facts(out, facts)
    if structure is not None and structure != Structure():
        write_structure(out, structure)
    if history:
        (out / HISTORY).write_text(json.dumps(history, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read_checkpoint(folder: Path, network: Network) -> nn.Module:
    """The network as the checkpoint has it, in evaluation mode, without gradients."""
    facts, structure = read_facts(folder), read_structure(folder)
    module = make_network(replace(network, weights=None, classes=facts.classes))
    state = torch.load(folder / WEIGHTS, weights_only=True)
    if structure.separable:
        from edgekit.build.separable import replace_layers

        replace_layers(module, structure.separable)
    if structure.pruned:
        reshape(module, state)
    module.load_state_dict(state)
    return module.eval().requires_grad_(False)


def read_history(folder: Path) -> dict[str, Any]:
    """What the stages before told; empty where nothing was trained."""
    path = folder / HISTORY
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

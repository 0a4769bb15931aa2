"""Early exits beside the weights of a network that reads text, in files of their own that have the names of those for photos."""

import io
import json
from collections.abc import Mapping
from pathlib import Path

import torch

from edgekit.build.ladder.exit_checkpoint import FILE, WEIGHTS
from edgekit.build.text.exits import TextExit

__all__ = ["read_text_exits", "write_text_exits"]


def write_text_exits(out: Path, heads: Mapping[str, TextExit]) -> None:
    """Write `exits.json`, where each head sits and how large it is, and `exits.pt`, their weights, into a checkpoint."""
    told = [
        {
            "after": place,
            "hidden": (head.dense or head.linear).in_features,
            "classes": head.linear.out_features,
            "width": 0 if head.dense is None else head.dense.out_features,
        }
        for place, head in heads.items()
    ]
    # On a full disk torch's own writer ends the whole process.
    buffer = io.BytesIO()
    torch.save({f"{i}.{k}": v.cpu() for i, head in enumerate(heads.values()) for k, v in head.state_dict().items()}, buffer)
    (out / WEIGHTS).write_bytes(buffer.getbuffer())
    (out / FILE).write_text(json.dumps({"exits": told}, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read_text_exits(folder: Path) -> dict[str, TextExit]:
    """Number of a layer -> head, ascending, in evaluation mode, without gradients; empty for a checkpoint without exits."""
    path = folder / FILE
    if not path.is_file():
        return {}
    state = torch.load(folder / WEIGHTS, map_location="cpu", weights_only=True)
    heads = {}
    with torch.random.fork_rng(devices=[]):
        for i, each in enumerate(json.loads(path.read_text(encoding="utf-8"))["exits"]):
            head = TextExit(each["hidden"], each["classes"], each["width"])
            head.load_state_dict({k.removeprefix(f"{i}."): v for k, v in state.items() if k.startswith(f"{i}.")})
            heads[each["after"]] = head.eval().requires_grad_(False)
    return heads

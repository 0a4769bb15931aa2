"""Early exits beside a checkpoint's weights: files of their own, so that the network's weights stay what every reader knows."""

import io
import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import torch

from edgekit.build.checkpoint import read_checkpoint
from edgekit.build.ladder.staged import ExitHead, Staged
from edgekit.build.network import Network

__all__ = ["FILE", "WEIGHTS", "copy_exits", "exits_in", "read_exits", "read_staged", "write_exits"]

FILE = "exits.json"
WEIGHTS = "exits.pt"


def write_exits(out: Path, heads: Mapping[str, ExitHead]) -> None:
    """Write `exits.json`, where each head sits and how large it is, and `exits.pt`, their weights, into a checkpoint."""
    told = [
        {
            "after": place,
            "channels": head.expand.in_channels,
            "classes": head.linear.out_features,
            "hidden": head.expand.out_channels,
        }
        for place, head in heads.items()
    ]
    # On a full disk torch's own writer ends the whole process.
    buffer = io.BytesIO()
    torch.save({f"{i}.{k}": v.cpu() for i, head in enumerate(heads.values()) for k, v in head.state_dict().items()}, buffer)
    (out / WEIGHTS).write_bytes(buffer.getbuffer())
    (out / FILE).write_text(json.dumps({"exits": told}, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def exits_in(folder: Path) -> tuple[str, ...]:
    """Names of the modules after which a checkpoint has exits, in the order they run; empty without any."""
    path = folder / FILE
    if not path.is_file():
        return ()
    return tuple(str(each["after"]) for each in json.loads(path.read_text(encoding="utf-8"))["exits"])


def read_exits(folder: Path) -> dict[str, ExitHead]:
    """Module -> head, in the order they run, in evaluation mode, without gradients; empty for a checkpoint without exits."""
    path = folder / FILE
    if not path.is_file():
        return {}
    told = json.loads(path.read_text(encoding="utf-8"))["exits"]
    state = torch.load(folder / WEIGHTS, weights_only=True)
    heads = {}
    for i, each in enumerate(told):
        head = ExitHead(each["channels"], each["classes"], each["hidden"])
        head.load_state_dict({k.removeprefix(f"{i}."): v for k, v in state.items() if k.startswith(f"{i}.")})
        heads[each["after"]] = head.eval().requires_grad_(False)
    return heads


def read_staged(folder: Path, network: Network) -> Staged:
    """A checkpoint's network with its exits, in evaluation mode, without gradients."""
    return Staged(read_checkpoint(folder, network), read_exits(folder)).eval().requires_grad_(False)


def copy_exits(source: Path, out: Path) -> None:
    """Copy the exits of one checkpoint into another of the same features; nothing where there are none."""
    if exits_in(source):
        for name in (FILE, WEIGHTS):
            shutil.copyfile(source / name, out / name)

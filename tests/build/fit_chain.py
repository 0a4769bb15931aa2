"""A program that fits a toy network through the pipeline, slowly enough to be killed on the way."""

import dataclasses
import sys
import time
from pathlib import Path

import torch
from training_toys import FACTORY, FACTS, plan

from edgekit.build import pipeline
from edgekit.build.artifact import Artifact, pin
from edgekit.build.checkpoint import write_checkpoint
from edgekit.build.construct import make_network
from edgekit.build.network import Network
from edgekit.build.splits import choose_splits
from edgekit.build.stages.fit import Fit
from edgekit.build.store import Store
from edgekit.build.training import checkpoints
from edgekit.spec.digest import sha256_tree

TRAINING = plan(epochs=4, augment=True)


def network_in(folder, factory="tiny", classes=None):
    """A user's file with toy networks below `folder`."""
    file = folder / "nets.py"
    if not file.exists():
        file.write_text(FACTORY)
    return Network("file", factory, pin(file), None, classes, 0)


def checkpoint_in(folder, network, **facts):
    """A checkpoint of a new network in `folder`."""
    known = dataclasses.replace(FACTS, **facts)
    folder.mkdir(parents=True, exist_ok=True)
    write_checkpoint(folder, make_network(dataclasses.replace(network, classes=known.classes)), known)
    return Artifact("checkpoint", sha256_tree(folder), folder)


def main():
    """Arguments: folder with `photos` and everything else, folder of the store, seconds to sleep after each step."""
    root, store, pause = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
    torch.set_num_threads(1)
    checkpoints.INTERVAL_S = 0.0
    network = network_in(root)
    source = checkpoint_in(root / "start", network, classes=5)
    splits, _ = choose_splits(root / "photos", seed=0, trains=True)

    def observe(event):
        print(event.kind, f"{event.fraction:.3f}", event.note, flush=True)
        time.sleep(pause)

    artifact, _ = pipeline.run((Fit(network, splits, TRAINING),), source, store=Store(store), observe=observe)
    print("RESULT", artifact.digest, flush=True)


if __name__ == "__main__":
    main()

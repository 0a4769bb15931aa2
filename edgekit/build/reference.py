"""The float network of a finished bundle, rebuilt from its provenance, to hold the bundle against."""

from collections.abc import Callable

import numpy as np
import torch

from edgekit.build.chains import chains_of
from edgekit.build.construct import make_network
from edgekit.build.facts import Facts
from edgekit.build.network import Network
from edgekit.build.request import BuildRequest, ModelSource
from edgekit.build.stages.load import Load, settle
from edgekit.build.tensors import to_tensor
from edgekit.spec.errors import EdgekitError
from edgekit.spec.manifest import Manifest

__all__ = ["rebuilt"]

BATCH = 16


def rebuilt(source: ModelSource, manifest: Manifest) -> Callable[[Manifest, np.ndarray], np.ndarray] | None:
    """(manifest, (n, h, w, 3) uint8) -> (n, classes) logits; None if the weights are not those of the bundle."""
    from pathlib import Path

    from edgekit.catalog import find_target

    rung = manifest.rungs[-1]
    request = BuildRequest(
        model=source,
        target=find_target("host"),
        out=Path(),
        resolution_px=rung.resolution_px,
        seed=int(manifest.provenance.get("seed", "0")),
    )
    try:
        load = chains_of(request).program[0]
    except EdgekitError:
        return None
    if not isinstance(load, Load) or load.facts.weights_sha256 != manifest.model.weights_sha256:
        return None
    module = _module(load.network, load.facts)

    def logits(_: Manifest, pixels: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return torch.cat([module(batch) for batch in to_tensor(pixels, load.facts).split(BATCH)]).numpy()

    return logits


def _module(network: Network, facts: Facts) -> torch.nn.Module:
    module = make_network(network)
    if network.weights is None:
        settle(module, facts, seed=network.seed)
    return module

"""The float network of a finished bundle, rebuilt from its provenance, to hold the bundle against."""

from collections.abc import Callable

import numpy as np
import torch

from edgekit.build.construct import make_network
from edgekit.build.facts import Facts
from edgekit.build.network import Network
from edgekit.build.origin import network_of
from edgekit.build.request import ModelSource
from edgekit.build.settling import settle
from edgekit.build.tensors import to_tensor
from edgekit.build.threads import one_thread
from edgekit.spec.errors import EdgekitError
from edgekit.spec.manifest import Manifest

__all__ = ["rebuilt"]

BATCH = 16


def rebuilt(source: ModelSource, manifest: Manifest) -> Callable[[Manifest, np.ndarray], np.ndarray] | None:
    """(manifest, (n, h, w, 3) uint8) -> (n, classes) logits; None where it cannot be.

    It cannot where the user's own file made it, or the installed weights are not those of the bundle.
    """
    if source.kind == "file":
        return None
    try:
        network, facts = network_of(
            source,
            weights=None,
            classes=None,
            seed=int(manifest.provenance.get("seed", "0")),
            resolution_px=manifest.rungs[-1].resolution_px,
        )
    except EdgekitError:
        return None
    if facts.weights_sha256 != manifest.model.weights_sha256:
        return None
    module = _module(network, facts)

    def logits(_: Manifest, pixels: np.ndarray) -> np.ndarray:
        with torch.inference_mode(), one_thread():
            return torch.cat([module(batch) for batch in to_tensor(pixels, facts).split(BATCH)]).numpy()

    return logits


def _module(network: Network, facts: Facts) -> torch.nn.Module:
    module = make_network(network)
    if network.weights is None:
        with one_thread():
            settle(module, facts, seed=network.seed)
    return module

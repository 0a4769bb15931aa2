"""How much of a network's time has passed behind each of its modules."""

import time
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

__all__ = ["time_shares"]

WARM_UP, RUNS = 3, 15


def time_shares(network: nn.Module, names: Sequence[str], example: Tensor) -> tuple[float, ...]:
    """Share (0..1) of the CPU time of one run that has passed when each module has answered: medians, one thread.

    Args:
        network: (1, 3, h, w) -> (1, classes), in evaluation mode.
        names: of modules that are called once.
        example: (1, 3, h, w).
    """
    modules = dict(network.named_modules())
    passed: dict[str, int] = {}
    handles = [
        modules[name].register_forward_hook(lambda *_, name=name: passed.__setitem__(name, time.process_time_ns()))
        for name in names
    ]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    shares = []
    try:
        with torch.inference_mode():
            for run in range(WARM_UP + RUNS):
                begun = time.process_time_ns()
                network(example)
                whole = time.process_time_ns() - begun
                if run >= WARM_UP:
                    shares.append([(passed[name] - begun) / whole for name in names])
    finally:
        torch.set_num_threads(threads)
        for handle in handles:
            handle.remove()
    return tuple(np.maximum.accumulate(np.median(shares, 0)).tolist())

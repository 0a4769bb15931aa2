"""How many threads compute."""

import contextlib
from collections.abc import Iterator

import torch

__all__ = ["one_thread"]


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread: sums then have one order, and the result does not depend on the number of cores.

    It costs little here, where images go one by one, and a busy machine does not make the threads of each small operator wait for
    each other.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

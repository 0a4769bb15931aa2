"""Running a network once to see what it does, without leaving a trace in it."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

__all__ = ["undisturbed"]


@contextmanager
def undisturbed(module: nn.Module) -> Iterator[None]:
    """No gradients, and buffers as they were: observers of ranges look in every mode, and must not learn from a black image."""
    before = [(layer, name, b, b.clone()) for layer in module.modules() for name, b in layer._buffers.items() if b is not None]
    try:
        with torch.no_grad():
            yield
    finally:
        for layer, name, buffer, kept in before:
            # The first look of an observer may change the shape too.
            if buffer.shape != kept.shape:
                buffer.resize_(kept.shape)
            buffer.copy_(kept)
            layer._buffers[name] = buffer

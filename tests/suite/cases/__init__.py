"""Cases by family. None of them imports a backend."""

from cases import blocks, convolutions, elementwise, mixed, moving, pooling

__all__ = ["ALL"]

ALL = (*convolutions.CASES, *elementwise.CASES, *pooling.CASES, *moving.CASES, *blocks.CASES, *mixed.CASES)

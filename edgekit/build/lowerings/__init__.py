"""One file per payload format. Each lowers a quantized or a float program; each is found by its entry point `edgekit.lowerings`.

A lowering module holds

* `NAME`: the engine that runs its payloads; `SUFFIX` of its files; `TOOLS`: the distributions that decide what it writes;
* `lower_integer(quantized, activation_dtype=...) -> Lowered`: an integer payload with integer edges;
* `lower_float(program, precision=...) -> Lowered`: an `fp32` or `fp16` payload;
* of an engine that `edgekit.build.operators` does not know: `placement(path) -> Placement`, read back from a payload file.
"""

from dataclasses import dataclass

from edgekit.spec.manifest import TensorSpec

__all__ = ["Lowered"]


@dataclass(frozen=True, slots=True)
class Lowered:
    """A payload's bytes and how to call it.

    Attributes:
        payload: the file's content.
        method: method or signature to call; empty where the format has none.
        inputs: what it takes, in order.
        outputs: what it gives, in order.
    """

    payload: bytes
    method: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

"""Where two INT8 payloads part: the layer is found by lowering ever shorter beginnings of the network for both engines."""

import dataclasses
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import fx
from torch.export import ExportedProgram

from edgekit.build.facts import Facts
from edgekit.build.integer import DEQUANTIZE, QUANTIZE, Edge
from edgekit.build.programs import graph_of
from edgekit.build.quantize import Quantized
from edgekit.build.stages.lower import lowering
from edgekit.runtime import engines
from edgekit.runtime.pixels import apply_table, make_table
from edgekit.spec.manifest import Entry

__all__ = ["beginning", "first_parting"]

MOST_MEAN_STEPS = 0.25
"""A layer whose two results differ by more on average is where they part: one flipped rounding spreads far less."""


def first_parting(quantized: Quantized, pair: tuple[str, str], image: np.ndarray, facts: Facts) -> str:
    """Name of the first layer after which two engines differ by more than rounding.

    Bisection over the quantized tensors: about six lowerings an engine.

    Args:
        quantized: the network.
        pair: the two engines.
        image: (height, width, 3) uint8 pixels.
        facts: of the network.
    """
    names = [n.args[0].name for n in graph_of(quantized.folded).graph.nodes if n.target is QUANTIZE][1:]
    low, high = 0, len(names) - 1
    while low < high:
        middle = (low + high) // 2
        first, second = (_run(engine, beginning(quantized, names[middle]), image, facts) for engine in pair)
        if float(np.abs(first - second).mean()) > MOST_MEAN_STEPS:
            high = middle
        else:
            low = middle + 1
    return names[low]


def beginning(quantized: Quantized, layer: str) -> Quantized:
    """The network up to the quantized result of node `layer`, flattened to (1, values)."""
    folded, end = _cut(quantized.folded, layer)
    unfolded, _ = _cut(quantized.unfolded, layer)
    return dataclasses.replace(quantized, folded=folded, unfolded=unfolded, exits=(end,))


def _cut(program: ExportedProgram, layer: str) -> tuple[ExportedProgram, Edge]:
    graph = graph_of(program)
    quantize = next(n for n in graph.graph.nodes if n.target is QUANTIZE and n.args[0].name == layer)
    end = next(iter(graph.graph.find_nodes(op="output")))
    with graph.graph.inserting_before(end):
        out = graph.graph.call_function(DEQUANTIZE, (quantize, *quantize.args[1:]))
    end.args = ((out,),)
    graph.graph.set_codegen(fx.graph.CodeGen())
    graph.graph.eliminate_dead_code()
    graph.recompile()
    args, _ = program.example_inputs
    return torch.export.export(graph, tuple(args), strict=False), Edge(float(quantize.args[1]), int(quantize.args[2]))


def _run(engine: str, part: Quantized, image: np.ndarray, facts: Facts) -> np.ndarray:
    """One engine's integers for one image, channels first, as int32 on the int8 grid."""
    code = lowering(engine)
    lowered = code.lower_integer(part, activation_dtype="uint8")
    entry = Entry("main", f"part{code.SUFFIX}", lowered.method, lowered.inputs, lowered.outputs)
    tensor = apply_table(image, make_table(facts.preprocess, entry.inputs[0]), layout=entry.inputs[0].layout)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / entry.file
        path.write_bytes(lowered.payload)
        session = engines.find(engine).load(path, entry, threads=1)
        try:
            (result,) = session.run(tensor)
        finally:
            session.close()
    return result.astype(np.int32) - (128 if result.dtype == np.uint8 else 0)

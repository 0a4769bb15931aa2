"""Dynamic INT8 payloads of networks that read images, for each engine: float edges, int8 weights in the linear layers.

The rewrites are those of networks that read text, so that both kinds are quantized alike.
"""

from types import MappingProxyType

import numpy as np
import torch

from edgekit.build.lowerings import Lowered
from edgekit.build.programs import graph_of, shapes
from edgekit.build.quantize_dynamic import Dynamic, grids, layers
from edgekit.build.text.integers import matched
from edgekit.spec.errors import GoalError
from edgekit.spec.manifest import TensorSpec

__all__ = ["LOWERINGS", "lower"]

INT8 = "int8"
LEAST_COLUMNS = 128
"""Inputs of a linear layer from which on integer arithmetic pays on ONNX Runtime, where there are many rows of tokens."""


def lower(engine: str, dynamic: Dynamic) -> Lowered:
    """(1, 3, h, w) float32 -> (1, classes) float32; the integers are read back from the payload.

    Raises:
        GoalError: `float-operator`; a layer's integers are not in the payload. `dynamic-engine`; the engine has no such payload.
    """
    if engine not in LOWERINGS:
        raise GoalError(
            f"networks with attention are quantized at run time, which edgekit does not lower to {engine}",
            where=f"{engine}-int8",
            fix=f"choose --engines among {', '.join(LOWERINGS)}, or --precision fp32",
            code="dynamic-engine",
        )
    lowered, weights = LOWERINGS[engine](dynamic)
    wanted = grids(layers(dynamic))
    found = matched(weights, wanted)
    left = [name for name in wanted if name not in found]
    if left:
        raise GoalError(
            f"{len(left)} of {len(wanted)} linear layers hold other integers in the payload: {', '.join(left[:4])}",
            where=f"{engine}-int8",
            fix="leave the engine out with --engines, or build it with --precision fp32",
            code="float-operator",
        )
    return lowered


def _executorch(dynamic: Dynamic) -> tuple[Lowered, tuple[np.ndarray, ...]]:
    from edgekit.build.forms_norms import norms_as_products
    from edgekit.build.lowerings import executorch as code
    from edgekit.build.text import lower_executorch as text

    found = layers(dynamic)
    graph = graph_of(dynamic.program)
    norms_as_products(graph)
    args, _ = dynamic.program.example_inputs
    plain = torch.export.export(graph, tuple(args), strict=False)
    payload = code.lower_program(text.with_integers(plain, found, grids(found), {}, precision=INT8))
    return Lowered(payload, "forward", *_edges(dynamic, "x", "logits")), text.weights_of(payload)


def _litert(dynamic: Dynamic) -> tuple[Lowered, tuple[np.ndarray, ...]]:
    from ai_edge_litert.tools import flatbuffer_utils

    from edgekit.build.lowerings import litert as code
    from edgekit.build.text import lower_litert as text

    found = layers(dynamic)
    size, out = shapes(dynamic.program)
    model = flatbuffer_utils.read_model_from_bytearray(bytearray(code.convert(graph_of(dynamic.program), size, None)))
    text.store_integers(model, found, grids(found), precision=INT8)
    payload = bytes(flatbuffer_utils.convert_object_to_bytearray(model))
    entry = TensorSpec("args_0", "float32", code.last_channels(size), "NHWC")
    end = TensorSpec("output_0", "float32", out, "NC")
    return Lowered(payload, code.SIGNATURE, (entry,), (end,)), text.weights_of(payload)


def _onnx(dynamic: Dynamic) -> tuple[Lowered, tuple[np.ndarray, ...]]:
    from edgekit.build.lowerings import onnx as code
    from edgekit.build.lowerings.onnx_passes import sweep
    from edgekit.build.text import lower_onnx as text
    from edgekit.build.text import lower_onnx_passes as passes
    from edgekit.build.text.integers import names_by_weight
    from edgekit.build.text.lowered import check_all

    found = layers(dynamic)
    integers = grids(found)
    size, _ = shapes(dynamic.program)
    model = code.export(dynamic.program, (torch.zeros(size),))
    done = set()
    for name, node in passes.linears(model.graph, names_by_weight(found.linears())):
        pays = integers[name].values.shape[1] >= LEAST_COLUMNS
        (passes.quantize_dynamically if pays else passes.store_integers)(model.graph, node, integers[name], name=name)
        done.add(name)
    check_all(done, integers, engine="onnx", precision=INT8)
    sweep(model.graph)
    payload = code.serialize(model)
    return Lowered(payload, "", *_edges(dynamic, "x", "logits")), text.weights_of(payload)


def _edges(dynamic: Dynamic, entry: str, end: str) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    size, out = shapes(dynamic.program)
    return (TensorSpec(entry, "float32", size, "NCHW"),), (TensorSpec(end, "float32", out, "NC"),)


LOWERINGS = MappingProxyType({"executorch": _executorch, "litert": _litert, "onnx": _onnx})

"""A text network -> one `.pte` with a method for each bucket, for the XNNPACK delegate.

| precision | linear layers | word embedding |
|---|---|---|
| `int8` | int8 weights; each row of activations is quantized at run time | int8 |
| `int8-static` | int8 weights, int8 activations in and out with the scales of a calibration | int8 |
| `fp16` | float16 throughout, float32 edges | float16 |
| `fp32` | float32 | float32 |

The delegate has no float arithmetic on int8 weights, so there is no `int8-weights`. The file names weights by their content, so
all methods share them.
"""

import copy
import operator
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.exir._serialize._program import deserialize_pte_binary
from torch import fx, nn
from torch.export import ExportedProgram

# Importing it registers the quantized operators.
import torchao.quantization.pt2e.quantize_pt2e  # noqa: F401  isort:skip

from edgekit.build.lowerings.executorch import half_weights
from edgekit.build.text.integers import Exportable, Grid, grids_of, names_by_weight
from edgekit.build.text.lower_ranges import Range, linear_nodes, measure
from edgekit.build.text.lowered import (
    SegmentsLowered,
    TextLowered,
    bucket,
    check,
    check_all,
    example,
    segment_bucket,
    unsupported,
)
from edgekit.build.text.segments import Segment

__all__ = ["NAME", "SUFFIX", "TOOLS", "lower", "lower_segments", "method_of", "weights_of", "with_integers"]

NAME = "executorch"
SUFFIX = ".pte"
TOOLS = ("executorch", "torch", "torchao")

EDGES = ("ids", "keep", "logits")
LEAST_SCALE = 2.0**-12
"""Of activations at run time: below it a row is all zeros."""

decomposed = torch.ops.quantized_decomposed
INT8 = (-128, 127, torch.int8)


def method_of(tokens: int) -> str:
    """Name of a bucket's method."""
    return f"tokens_{tokens}"


def lower(
    plain: Exportable,
    *,
    tokens: tuple[int, ...],
    precision: str,
    float_layers: Collection[str] = (),
    samples: Sequence[torch.Tensor] = (),
) -> TextLowered:
    """(1, n) int64 ids and (1, n) float32 keep -> (1, outputs) float32, a method for each n of `tokens`.

    Args:
        plain: the network, snapped for an INT8 precision.
        tokens: lengths of the buckets, ascending.
        precision: one of `PRECISIONS`.
        float_layers: linear layers that stay float32.
        samples: texts (k, n) int64, -1 is padding, to measure ranges with; only of `int8-static`.

    Raises:
        GoalError: `text-precision`; `int8-weights`.
        InputError: `text-buckets`, `text-samples`.
        UnknownName: no such precision or linear layer.
    """
    check(plain, tokens, precision=precision, float_layers=float_layers)
    if precision == "int8-weights":
        raise unsupported(NAME, precision, why="XNNPACK multiplies int8 weights with int8 activations only")
    grids = grids_of(plain, float_layers=float_layers) if precision.startswith("int8") else {}
    ranges = measure(plain, samples, tokens=max(tokens)) if precision == "int8-static" else {}
    programs = {}
    for n in tokens:
        form = plain.form(tokens=n, norm="matmul", table="int8" if grids else "float")
        program = torch.export.export(form, example(n), strict=False)
        if precision == "fp16":
            program = _halved(program)
        elif grids:
            program = with_integers(program, plain, grids, ranges, precision=precision)
        programs[method_of(n)] = program
    outputs = int(next(iter(programs.values())).module(check_guards=False)(*example(tokens[0])).shape[1])
    buckets = tuple(bucket(n, method=method_of(n), names=EDGES, ids_dtype="int64", outputs=outputs) for n in tokens)
    return TextLowered(_lower(programs), buckets)


def lower_segments(segments: Mapping[str, Segment], *, tokens: tuple[int, ...], classes: int) -> SegmentsLowered:
    """Segments of a snapped network, by rung -> one INT8 file with a method for each rung and bucket; see `lower`.

    Raises:
        GoalError: `float-operator`.
        InputError: `text-buckets`.
    """
    programs, buckets = {}, {}
    for rung, segment in segments.items():
        check(segment, tokens, precision="int8", float_layers=())
        grids, names = grids_of(segment), ("ids" if segment.begins else "features", "keep", "logits", "features")
        for n in tokens:
            form = segment.form(tokens=n, norm="matmul", table="int8")
            program = torch.export.export(form, segment.example(n), strict=False)
            programs[f"{rung}_{method_of(n)}"] = with_integers(program, segment, grids, {}, precision="int8")
        buckets[rung] = tuple(
            segment_bucket(segment, n, method=f"{rung}_{method_of(n)}", names=names, ids_dtype="int64", classes=classes)
            for n in tokens
        )
    return SegmentsLowered({NAME: _lower(programs)}, buckets)


def weights_of(payload: bytes) -> tuple[np.ndarray, ...]:
    """Constants of a payload as flat int8, in order of rows: the named data of its delegates, and what its own kernels read.

    A `.pte` keeps neither shape nor dtype of a delegate's constants, so float constants are among them.
    """
    file = deserialize_pte_binary(payload)
    named = file.named_data.buffers if file.named_data is not None else ()
    blobs = (*named, *(buffer.storage for buffer in file.program.constant_buffer))
    return tuple(np.frombuffer(bytes(blob), np.int8) for blob in blobs)


class _FloatEdges(nn.Module):
    """A float16 network between float32 edges."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, ids: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        return self.inner(ids, keep.half()).float()


def _halved(program: ExportedProgram) -> ExportedProgram:
    """The same network with float16 parameters of its own, arithmetic and constants; the edges stay float32."""
    graph = copy.deepcopy(program.module(check_guards=False)).half()
    for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten._to_copy.default, sort=False):
        node.kwargs = {**node.kwargs, "dtype": _half_of(node.kwargs.get("dtype"))}
    for node in graph.graph.nodes:
        if torch.float32 in node.args:
            node.args = tuple(_half_of(a) for a in node.args)
    graph.recompile()
    args, _ = program.example_inputs
    return torch.export.export(_FloatEdges(graph), args, strict=False)


def _half_of(value: object) -> object:
    return torch.float16 if value is torch.float32 else value


def with_integers(
    program: ExportedProgram,
    plain: Exportable,
    grids: Mapping[str, Grid],
    ranges: Mapping[str, tuple[Range, Range]],
    *,
    precision: str,
) -> ExportedProgram:
    """`linear(x, W, b)` -> `linear(dq(q(x)), dq(Wq), b)`, statically also `dq(q(...))` around its result."""
    graph = program.module(check_guards=False)
    layers = linear_nodes(graph, names_by_weight(plain.linears()))
    rounded: dict[fx.Node, fx.Node] = {}
    done = set()
    for node, name in layers.items():
        if name not in grids:
            continue
        x, _, *bias = node.args
        with graph.graph.inserting_before(node):
            if ranges:
                entry = _rounded(graph, x, ranges[name][0].int8())
            else:
                entry = rounded[x] = rounded.get(x) or _rounded_at_run_time(graph, x)
            node.args = (entry, _weight(graph, name, grids[name]), *bias)
        if ranges:
            with graph.graph.inserting_after(node):
                _round_result(graph, node, ranges[name][1].int8())
        done.add(name)
    check_all(done, grids, engine=NAME, precision=precision)
    for node in graph.graph.nodes:
        # The chain of origins is copied with each node in each pass, which takes a fifth of the time.
        node.meta.pop("from_node", None)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    args, _ = program.example_inputs
    return torch.export.export(graph, args, strict=False)


def _weight(graph: fx.GraphModule, name: str, grid: Grid) -> fx.Node:
    base = f"{name.replace('.', '_')}_grid"
    rows = len(grid.scales)
    parts = (torch.from_numpy(grid.values), torch.from_numpy(grid.scales), torch.zeros(rows, dtype=torch.int64))
    nodes = []
    for part, tensor in zip(("values", "scales", "zeros"), parts, strict=True):
        graph.register_buffer(f"{base}_{part}", tensor)
        nodes.append(graph.graph.get_attr(f"{base}_{part}"))
    return graph.graph.call_function(decomposed.dequantize_per_channel.default, (*nodes, 0, -127, 127, torch.int8))


def _rounded_at_run_time(graph: fx.GraphModule, x: fx.Node) -> fx.Node:
    """One scale for x in this graph; XNNPACK takes the pattern, and a scale for each row."""
    call = graph.graph.call_function
    chosen = call(decomposed.choose_qparams.tensor, (x, *INT8[:2], LEAST_SCALE, INT8[2]))
    scale, zero = (call(operator.getitem, (chosen, i)) for i in range(2))
    return call(
        decomposed.dequantize_per_tensor.tensor,
        (call(decomposed.quantize_per_tensor.tensor, (x, scale, zero, *INT8)), scale, zero, *INT8),
    )


def _rounded(graph: fx.GraphModule, x: fx.Node, grid: tuple[float, int]) -> fx.Node:
    call = graph.graph.call_function
    return call(
        decomposed.dequantize_per_tensor.default, (call(decomposed.quantize_per_tensor.default, (x, *grid, *INT8)), *grid, *INT8)
    )


def _round_result(graph: fx.GraphModule, node: fx.Node, grid: tuple[float, int]) -> None:
    readers = list(node.users)
    steps = graph.graph.call_function(decomposed.quantize_per_tensor.default, (node, *grid, *INT8))
    with graph.graph.inserting_after(steps):
        real = graph.graph.call_function(decomposed.dequantize_per_tensor.default, (steps, *grid, *INT8))
    for reader in readers:
        reader.replace_input_with(node, real)


def _lower(programs: dict[str, ExportedProgram]) -> bytes:
    with half_weights():
        lowered = to_edge_transform_and_lower(programs, partitioner=[XnnpackPartitioner()])
    return bytes(lowered.to_executorch().buffer)

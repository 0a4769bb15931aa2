"""LiteRT: exported program -> `.tflite`, channels last, for the XNNPACK delegate."""

import contextlib
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

# The converter reads its log settings when it is imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import litert_torch
import torch
from litert_torch._convert import litert_converter
from litert_torch._convert.fx_passes.optimize_layout_transposes_pass import layout_rewrite
from litert_torch.quantize.quant_config import QuantConfig
from torch import fx, nn
from torch.export import ExportedProgram

from edgekit.build.integer import DEQUANTIZE, QUANTIZE, clamp_bounds
from edgekit.build.lowerings import Lowered, LoweredRungs, Piece, output_specs
from edgekit.build.programs import edge_shapes, graph_of, plain, shapes
from edgekit.build.quantize import Quantized
from edgekit.build.quantizer import CLAMPS, EdgeQuantizer
from edgekit.spec.manifest import TensorSpec

__all__ = ["NAME", "SUFFIX", "TOOLS", "convert", "last_channels", "lower_float", "lower_integer", "lower_rungs", "quiet"]

NAME = "litert"
SUFFIX = ".tflite"
TOOLS = ("litert-torch", "litert-converter", "ai-edge-quantizer", "ai-edge-litert", "torch", "torchao")
SIGNATURE = "serving_default"

aten = torch.ops.aten


class _ChannelsLast(nn.Module):
    """(1, h, w, c) -> what `inner` makes of (1, c, h, w); the converter then moves the transpose out of existence."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        return self.inner(x.permute(0, 3, 1, 2))


def lower_integer(quantized: Quantized, *, activation_dtype: str) -> Lowered:
    """(1, h, w, 3) int8 -> (1, classes) int8. TFLite knows int8 activations only."""
    rungs = lower_rungs({SIGNATURE: quantized}, activation_dtype=activation_dtype)
    piece = rungs.pieces[SIGNATURE]
    return Lowered(rungs.files[piece.file], piece.method, piece.inputs, piece.outputs)


def lower_rungs(rungs: Mapping[str, Quantized], *, activation_dtype: str) -> LoweredRungs:
    """A signature for each rung in one file that holds equal weights once; features lie channels last, as inside.

    The converter is given float edges that begin with a quantize and end with a dequantize operator: it drops both, and the
    signature becomes integer.
    """
    del activation_dtype
    graphs = {}
    for name, quantized in rungs.items():
        graph = graph_of(quantized.unfolded)
        _pad_before_pools(graph)
        _split_unit_clamps(graph)
        _features_last(graph)
        graphs[name] = (graph, shapes(quantized.unfolded)[0])
    with _strict() if any(quantized.float_layers for quantized in rungs.values()) else contextlib.nullcontext():
        payload = convert_all(graphs, QuantConfig(pt2e_quantizer=EdgeQuantizer()))
    return LoweredRungs({NAME: payload}, {name: _piece(name, quantized) for name, quantized in rungs.items()})


def _piece(name: str, quantized: Quantized) -> Piece:
    size, outputs = edge_shapes(quantized.unfolded)
    entry = TensorSpec("args_0", "int8", last_channels(size), "NHWC", quantized.entry.scale, quantized.entry.zero_point)
    names = tuple(f"output_{i}" for i in range(len(outputs)))
    return Piece(NAME, name, (entry,), output_specs(outputs, quantized.exits, dtype="int8", last=True, names=names))


def lower_float(program: ExportedProgram, *, precision: str) -> Lowered:
    """(1, h, w, 3) float32 -> (1, classes) float32; `fp16` stores the weights as float16, LiteRT's own form of half precision."""
    size, out = shapes(program)
    payload = convert(graph_of(plain(program)), size, None)
    if precision == "fp16":
        payload = _cast_weights(payload)
    return Lowered(
        payload=payload,
        method=SIGNATURE,
        inputs=(TensorSpec("args_0", "float32", last_channels(size), "NHWC"),),
        outputs=(TensorSpec("output_0", "float32", out, "NC"),),
    )


def last_channels(size: tuple[int, ...]) -> tuple[int, ...]:
    """(n, channels, height, width) -> (n, height, width, channels)."""
    return size[0], size[2], size[3], size[1]


def convert(graph: nn.Module, size: tuple[int, ...], config: QuantConfig | None) -> bytes:
    """A network of images (n, channels, height, width) -> the bytes of a `.tflite` that takes channels last."""
    return convert_all({SIGNATURE: (graph, size)}, config)


def convert_all(graphs: Mapping[str, tuple[nn.Module, tuple[int, ...]]], config: QuantConfig | None) -> bytes:
    """The same of several networks, each with the size of its input: a signature each, by name."""
    converter: Any = litert_torch
    for name, (graph, size) in graphs.items():
        wrapped = _ChannelsLast(graph)
        # An exported graph refuses eval(), having no training mode; the converter only looks at this flag.
        wrapped.training = False
        converter = converter.signature(name, wrapped, (torch.zeros(last_channels(size)),))
    with quiet(), _pads_channels_last(), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        converter.convert(quant_config=config).export(str(path))
        return path.read_bytes()


def _features_last(graph: fx.GraphModule) -> None:
    """Let features leave a segment channels last, without a transpose in the file.

    `x -> quantize -> dequantize -> output, readers` -> `x -> permute -> quantize -> dequantize -> output, permute -> readers`.
    The converter removes a pair of opposite permutations, but not through a quantize and a dequantize operator between them.
    """
    end = next(iter(graph.graph.find_nodes(op="output")))
    outputs = end.args[0]
    for value in outputs if isinstance(outputs, tuple | list) else (outputs,):
        if value.target is not DEQUANTIZE or value.meta["val"].dim() != 4:
            continue
        quantize = value.args[0]
        with graph.graph.inserting_before(quantize):
            last = graph.graph.call_function(aten.permute.default, (quantize.args[0], [0, 2, 3, 1]))
        quantize.replace_input_with(quantize.args[0], last)
        for dequantize in quantize.users:
            readers = [user for user in dequantize.users if user is not end]
            with graph.graph.inserting_after(dequantize):
                first = graph.graph.call_function(aten.permute.default, (dequantize, [0, 3, 1, 2]))
            for reader in readers:
                reader.replace_input_with(dequantize, first)
    graph.graph.eliminate_dead_code()
    graph.recompile()


def _pad_before_pools(graph: fx.GraphModule) -> None:
    """`max_pool(x, padding)` of an x that is never negative -> `max_pool(quantize(pad(x, 0)))`, with the scale of x.

    The converter pads with the least integer, which the delegate does not know; with the zero point it does. Here both are one.
    """
    for node in list(graph.graph.find_nodes(op="call_function", target=aten.max_pool2d.default)):
        if len(node.args) < 4:
            continue
        x, kernel, stride, (vertical, horizontal), *rest = node.args
        ceil = len(rest) > 1 and rest[1]
        if ceil or not (vertical or horizontal) or x.target is not DEQUANTIZE or x.args[2] != x.args[3]:
            continue
        with graph.graph.inserting_before(node):
            pad = graph.graph.call_function(aten.pad.default, (x, [horizontal, horizontal, vertical, vertical]))
            integers = graph.graph.call_function(QUANTIZE, (pad, *x.args[1:]))
            real = graph.graph.call_function(DEQUANTIZE, (integers, *x.args[1:]))
        node.args = (real, kernel, stride, [0, 0], *rest)
    graph.recompile()


def _split_unit_clamps(graph: fx.GraphModule) -> None:
    """`quantize(clamp(x, 0, 1))` -> `quantize(clamp_max(dequantize(quantize(relu(x))), 1))`, which are the same integers.

    The converter makes RELU_0_TO_1 of the clamp, has no integer form of it, and leaves the layer in front in float as well.
    """
    for quantize in list(graph.graph.find_nodes(op="call_function", target=QUANTIZE)):
        clamp = quantize.args[0]
        if clamp.target not in CLAMPS or clamp_bounds(clamp) != (0.0, 1.0):
            continue
        with graph.graph.inserting_before(quantize):
            relu = graph.graph.call_function(aten.relu.default, (clamp.args[0],))
            integers = graph.graph.call_function(QUANTIZE, (relu, *quantize.args[1:]))
            real = graph.graph.call_function(DEQUANTIZE, (integers, *quantize.args[1:]))
            below = graph.graph.call_function(aten.clamp.default, (real, None, 1.0))
        quantize.args = (below, *quantize.args[1:])
    graph.graph.eliminate_dead_code()
    graph.recompile()


def _cast_weights(payload: bytes) -> bytes:
    from ai_edge_quantizer import qtyping, quantizer

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fp32.tflite"
        path.write_bytes(payload)
        caster = quantizer.Quantizer(str(path))
        caster.add_weight_only_config(
            regex=".*",
            operation_name=qtyping.TFLOperationName.ALL_SUPPORTED,
            num_bits=16,
            algorithm_key="float_casting",
        )
        return bytes(caster.quantize().quantized_model)


@contextlib.contextmanager
def _strict() -> Iterator[None]:
    """Make the converter quantize what the graph quantizes, and nothing else.

    By default it also rounds the weights of a float layer between a dequantize and a quantize operator, on a grid of its own. In
    its strict mode it does not, but keeps the float edges, so the pass that drops them is run afterwards.
    """
    run_passes = litert_converter.converter_api_ext.run_convert_to_tfl_passes

    def run_strictly(module: Any, manager: Any, config: Any) -> None:
        config.strict_qdq_mode = True
        run_passes(module, manager, config)
        pipeline = "builtin.module(func.func(tfl-post-quantize{emit-quant-adaptor-ops=false}))"
        litert_converter.passmanager.PassManager.parse(pipeline).run(module.operation)

    with mock.patch.object(litert_converter.converter_api_ext, "run_convert_to_tfl_passes", run_strictly):
        yield


@contextlib.contextmanager
def _pads_channels_last() -> Iterator[None]:
    """Teach the converter's layout pass to pad in channels-last order.

    litert-torch 0.10 has no rule for constant padding and wraps each in two transposes; with the rule, the converter also
    recognises
    TensorFlow's SAME padding and folds it into the convolution. EfficientNet-Lite0: 9 transposes and 5 pads less, 1.25x faster.
    """

    def rewrite(node: fx.Node) -> None:
        x, pads, *rest = node.args
        left, right, top, bottom, front, back, first, last = [*pads, *[0] * (8 - len(pads))]
        node.args = (x, [front, back, left, right, top, bottom, first, last], *rest)

    operators = (aten.constant_pad_nd.default, aten.pad.default)
    rules = layout_rewrite.rewriters
    before = dict(rules)
    for operator in operators:
        rules.register(operator)(rewrite)
    try:
        yield
    finally:
        rules.clear()
        rules.update(before)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """The converter prints a line a step on stdout, where edgekit prints its one document."""
    root = logging.getLogger()
    level, shown = root.level, litert_torch.config.show_progress
    root.setLevel(logging.ERROR)
    litert_torch.config.show_progress = False
    try:
        yield
    finally:
        root.setLevel(level)
        litert_torch.config.show_progress = shown

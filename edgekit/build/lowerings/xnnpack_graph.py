"""Rewrites of the graph that ExecuTorch hands to XNNPACK, on the serializer's own dataclasses, just before it is written.

One of its own passes is mended as well: `free_pads`.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

from executorch.backends.xnnpack import xnnpack_preprocess
from executorch.backends.xnnpack._passes.insert_pad_qdq import InsertPadQDQPass
from executorch.backends.xnnpack.serialization.xnnpack_graph_schema import XNNGraph
from executorch.backends.xnnpack.utils.quant_utils import is_dequant, is_quant
from torch import fx

__all__ = ["drop_unit_transposes", "free_pads", "fuse_pads", "rewriting"]

CONVOLUTIONS = ("XNNConv2d", "XNNDepthwiseConv2d")
INPUTS = ("input_id", "input1_id", "input2_id", "input3_id", "input4_id", "input5_id")
TO_LAST = [0, 2, 3, 1]
PAD = ["XNNStaticConstantPad"]
INTEGER_PAD = ["XNNConvert", "XNNStaticConstantPad", "XNNConvert"]


@contextlib.contextmanager
def rewriting() -> Iterator[None]:
    """Within it, every graph that ExecuTorch's XNNPACK backend serializes is rewritten first."""
    serialize = xnnpack_preprocess.serialize_xnnpack_binary

    def rewrite_and_serialize(graph: XNNGraph, data: Any) -> bytes:
        fuse_pads(graph)
        drop_unit_transposes(graph)
        return bytes(serialize(graph, data))

    insert = InsertPadQDQPass.call

    def insert_and_free(self: InsertPadQDQPass, graph: fx.GraphModule) -> Any:
        result = insert(self, graph)
        free_pads(graph)
        return result

    with (
        mock.patch.object(xnnpack_preprocess, "serialize_xnnpack_binary", rewrite_and_serialize),
        mock.patch.object(InsertPadQDQPass, "call", insert_and_free),
    ):
        yield


def free_pads(graph: fx.GraphModule) -> int:
    """`conv(dequantize(quantize(pad(x))), float weight)` -> `conv(pad(x), float weight)`; returns how many.

    ExecuTorch quantizes every padding of a dequantized x, and then refuses a convolution of which only the input is quantized.
    """
    count = 0
    for pad in [n for n in graph.graph.nodes if _calls(n, "aten.constant_pad_nd.default")]:
        for quantize in [user for user in pad.users if is_quant(user)]:
            for dequantize in [user for user in quantize.users if is_dequant(user)]:
                convolutions = [user for user in dequantize.users if _calls(user, "aten.convolution.default")]
                layers = [layer for layer in convolutions if not is_dequant(layer.args[1])]
                for layer in layers:
                    layer.replace_input_with(dequantize, pad)
                count += len(layers)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return count


def _calls(node: fx.Node, operator: str) -> bool:
    return node.op == "call_function" and getattr(node.target, "__name__", "") == operator


def fuse_pads(graph: XNNGraph) -> int:
    """`conv(convert(pad(convert(x))))` and `conv(pad(x))` -> `conv(x)` with the padding inside; returns how many.

    XNNPACK pads convolutions unevenly on its own, and with the zero point where they are integer, but PyTorch's convolution
    cannot say
    so, and XNNPACK's pad operator has no integer form: it was run in float between two conversions. A transpose to channels last
    between padding and convolution stays, over the smaller tensor.
    """
    makers = {_output(node): node for node in graph.xnodes}
    readers = Counter(source for node in graph.xnodes for source in _inputs(node))
    dropped: set[int] = set()
    count = 0
    for node in graph.xnodes:
        conv = node.xnode_union
        if type(conv).__name__ not in CONVOLUTIONS:
            continue
        transpose = makers.get(conv.input1_id)
        if transpose is not None and not _to_channels_last(transpose, readers):
            transpose = None
        start = conv.input1_id if transpose is None else transpose.xnode_union.input_id
        chain = _padding_chain(start, makers, readers)
        if not chain:
            continue
        source = chain[-1].xnode_union.input_id
        _absorb(conv, next(n.xnode_union for n in chain if _kind(n) == "XNNStaticConstantPad"), last=transpose is None)
        if transpose is None:
            conv.input1_id = source
        else:
            transpose.xnode_union.input_id = source
            dims = _tensor(graph.xvalues[source]).dims
            _tensor(graph.xvalues[conv.input1_id]).dims = [dims[axis] for axis in TO_LAST]
        dropped |= {id(n) for n in chain}
        count += 1
    graph.xnodes = [node for node in graph.xnodes if id(node) not in dropped]
    return count


def _absorb(conv: Any, pad: Any, *, last: bool) -> None:
    height, width = (1, 2) if last else (2, 3)
    conv.padding_top += pad.pre_paddings[height]
    conv.padding_left += pad.pre_paddings[width]
    conv.padding_bottom += pad.post_paddings[height]
    conv.padding_right += pad.post_paddings[width]


def _to_channels_last(node: Any, readers: Mapping[int, int]) -> bool:
    return _kind(node) == "XNNStaticTranspose" and list(node.xnode_union.perm) == TO_LAST and readers[_output(node)] == 1


def drop_unit_transposes(graph: XNNGraph) -> int:
    """`f(transpose(x))` -> `f(x)` where x has one element: a constant operand would be transposed anew in every call."""
    single = {
        tensor.id_out for value in graph.xvalues for tensor in [_tensor(value)] if tensor is not None and set(tensor.dims) <= {1}
    }
    moved = {
        node.xnode_union.output_id: node.xnode_union.input_id
        for node in graph.xnodes
        if type(node.xnode_union).__name__ == "XNNStaticTranspose" and node.xnode_union.input_id in single
    }
    moved = {new: old for new, old in moved.items() if new not in graph.output_ids}
    graph.xnodes = [node for node in graph.xnodes if _output(node) not in moved]
    for node in graph.xnodes:
        for name in INPUTS:
            source = getattr(node.xnode_union, name, None)
            if source in moved:
                setattr(node.xnode_union, name, moved[source])
    return len(moved)


def _tensor(value: Any) -> Any:
    union = value.xvalue_union
    return getattr(union, "tensor_value", union)


def _padding_chain(value: int, makers: Mapping[int, Any], readers: Mapping[int, int]) -> list[Any]:
    """Nodes from `value` up to a padding with zero and through the conversions around it; empty if there is none."""
    chain: list[Any] = []
    while value in makers and readers[value] == 1:
        node = makers[value]
        kinds = [_kind(n) for n in chain] + [_kind(node)]
        if kinds not in (PAD[:1], INTEGER_PAD[:1], INTEGER_PAD[:2], INTEGER_PAD):
            return []
        chain.append(node)
        value = node.xnode_union.input_id
        if kinds in (PAD, INTEGER_PAD):
            pad = next(n.xnode_union for n in chain if _kind(n) == "XNNStaticConstantPad")
            return chain if pad.padding_value == 0.0 and len(pad.pre_paddings) == 4 and _pads_space_only(pad) else []
    return []


def _pads_space_only(pad: Any) -> bool:
    """Neither batch nor channels, wherever those are: channel-first pads the axes 2 and 3, channels-last 1 and 2."""
    amounts = [before + after for before, after in zip(pad.pre_paddings, pad.post_paddings, strict=True)]
    return amounts[0] == 0 and (amounts[1] == 0 or amounts[3] == 0)


def _kind(node: Any) -> str:
    return type(node.xnode_union).__name__


def _inputs(node: Any) -> list[int]:
    return [source for name in INPUTS if (source := getattr(node.xnode_union, name, None)) is not None]


def _output(node: Any) -> int:
    return int(getattr(node.xnode_union, "output_id", -1))

"""Passes over ONNX graphs, before and after on graphs written by hand; ONNX Runtime says whether the values are the same."""

import numpy as np
import onnx_ir as ir
import pytest

from edgekit.build.lowerings import onnx_passes as passes

onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.filterwarnings("ignore")


class Sheet:
    """Writes a graph line by line; scales and zero points become initializers."""

    def __init__(self, shape=(1, 2, 4, 4)):
        self.x = ir.Value(name="x", shape=ir.Shape(shape), type=ir.TensorType(ir.DataType.FLOAT))
        self.graph = ir.Graph([self.x], [], nodes=[], name="sheet", opset_imports={"": 20})

    def constant(self, array):
        tensor = ir.tensor(np.asarray(array))
        name = f"c{len(self.graph.initializers)}"
        value = ir.Value(name=name, shape=ir.Shape(np.shape(array)), type=ir.TensorType(tensor.dtype), const_value=tensor)
        self.graph.register_initializer(value)
        return value

    def call(self, kind, *inputs, dtype=ir.DataType.FLOAT, rank=4, **attributes):
        inputs = [i if isinstance(i, ir.Value) or i is None else self.constant(i) for i in inputs]
        node = ir.node(kind, inputs, attributes=attributes, name=f"n{len(self.graph)}")
        node.outputs[0].name = f"v{len(self.graph)}"
        node.outputs[0].type = ir.TensorType(dtype)
        node.outputs[0].shape = ir.Shape([None] * rank)
        self.graph.append(node)
        return node.outputs[0]

    def q(self, value, scale=0.1, zero=0):
        return self.call("QuantizeLinear", value, np.float32(scale), np.int8(zero), dtype=ir.DataType.INT8)

    def dq(self, value, scale=0.1, zero=0):
        return self.call("DequantizeLinear", value, np.float32(scale), np.int8(zero))

    def both(self, value, scale=0.1, zero=0):
        return self.dq(self.q(value, scale, zero), scale, zero)

    def conv(self, x, *, scale=(0.01, 0.02, 0.03), bias=None, pads=(0, 0, 0, 0)):
        steps = np.random.default_rng(0).integers(-127, 128, (3, 2, 2, 2)).astype(np.int8)
        weight = self.call("DequantizeLinear", steps, np.float32(scale), np.zeros(3, np.int8), axis=0)
        return self.call("Conv", x, weight, *([] if bias is None else [bias]), pads=list(pads))

    def done(self, *outputs):
        self.graph.outputs.extend(outputs)
        return self.graph


def kinds(graph):
    return [node.op_type for node in graph]


def run(graph, x=None):
    x = np.random.default_rng(1).normal(0, 3, (1, 2, 4, 4)).astype(np.float32) if x is None else x
    options = onnxruntime.SessionOptions()
    # As written: optimizations of the engine would hide what a pass changes.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = ir.to_proto(ir.Model(graph, ir_version=9)).SerializeToString()
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, {"x": x})


def assert_kept(graph, apply, count):
    before = run(graph)
    assert apply(graph) == count
    for old, new in zip(before, run(graph), strict=True):
        np.testing.assert_allclose(new, old, atol=1e-5)


def padded(sheet, *, amounts=(0, 0, 1, 0, 0, 0, 2, 1), fill=0.0, between=0.1, mode="constant", conv_pads=(0, 0, 0, 0)):
    """x -> Q -> DQ -> Pad -> Q -> DQ -> Conv."""
    x = sheet.both(sheet.x)
    x = sheet.call("Pad", x, np.int64(amounts), *([] if fill is None else [np.float32(fill)]), mode=mode)
    return sheet.done(sheet.conv(x if between is None else sheet.both(x, between), pads=conv_pads))


@pytest.mark.parametrize("fill", [0.0, None])
@pytest.mark.parametrize("between", [0.1, None])
def test_uneven_padding_folds_into_the_convolution(fill, between):
    graph = padded(Sheet(), fill=fill, between=between)
    assert_kept(graph, passes.fold_pads, 1)
    assert "Pad" not in kinds(graph)
    assert list(graph[-1].attributes["pads"].as_ints()) == [1, 0, 2, 1]


def test_padding_adds_to_that_of_the_convolution():
    graph = padded(Sheet(), conv_pads=(1, 1, 0, 0))
    assert_kept(graph, passes.fold_pads, 1)
    assert list(graph[-1].attributes["pads"].as_ints()) == [2, 1, 2, 1]


@pytest.mark.parametrize(
    "options",
    [{"fill": 1.0}, {"between": 0.2}, {"mode": "reflect", "fill": None}, {"amounts": (0, 1, 0, 0, 0, -1, 0, 0)}],
    ids=["not-zero", "other-scale", "reflect", "channels"],
)
def test_other_padding_stays(options):
    graph = padded(Sheet(), **options)
    assert_kept(graph, passes.fold_pads, 0)
    assert "Pad" in kinds(graph)


@pytest.mark.parametrize("axes", [[2, 3], [-1, -2]])
def test_a_mean_over_the_image_becomes_a_pooling(axes):
    sheet = Sheet()
    graph = sheet.done(sheet.call("ReduceMean", sheet.x, np.int64(axes), keepdims=1))
    assert_kept(graph, passes.pool_globally, 1)
    assert kinds(graph) == ["GlobalAveragePool"]
    assert not graph.initializers


@pytest.mark.parametrize(
    ("axes", "keepdims", "shape"), [([2, 3], 0, None), ([1], 1, None), ([1, 2, 3], 1, None), ([1, 2], 1, (1, 2, 16))]
)
def test_other_means_stay(axes, keepdims, shape):
    sheet = Sheet(shape or (1, 2, 4, 4))
    graph = sheet.done(sheet.call("ReduceMean", sheet.x, np.int64(axes), keepdims=keepdims))
    assert passes.pool_globally(graph) == 0
    assert kinds(graph) == ["ReduceMean"]


@pytest.mark.parametrize("scale", [(0.01, 0.02, 0.03), 0.01])
def test_biases_become_int32(scale):
    grid = 0.1 * np.broadcast_to(np.float64(scale), 3)
    sheet = Sheet()
    x = sheet.both(sheet.x)
    if np.ndim(scale):
        y = sheet.conv(x, bias=np.float32(grid * [100, -2000, 30000]))
    else:
        weight = sheet.call("DequantizeLinear", np.ones((3, 2, 1, 1), np.int8), np.float32(scale), np.int8(0))
        y = sheet.call("Conv", x, weight, np.float32(grid * [100, -2000, 30000]))
    graph = sheet.done(y)
    assert_kept(graph, passes.quantize_biases, 1)
    dequantize = graph[-1].inputs[2].producer()
    steps, found = (dequantize.inputs[i].const_value.numpy() for i in (0, 1))
    assert (steps.dtype, steps.tolist()) == (np.int32, [100, -2000, 30000])
    np.testing.assert_allclose(np.broadcast_to(found, 3), grid, rtol=1e-6)


def test_biases_of_float_layers_stay():
    sheet = Sheet()
    graph = sheet.done(sheet.conv(sheet.x, bias=np.ones(3, np.float32)))
    assert_kept(graph, passes.quantize_biases, 0)


def test_activations_move_to_uint8_and_weights_do_not():
    sheet = Sheet()
    addend = sheet.dq(np.int8([[[[5]]]]), 0.1, -7)
    graph = sheet.done(sheet.both(sheet.conv(sheet.call("Add", sheet.both(sheet.x, 0.1, 3), addend)), 0.2, -20))
    assert_kept(graph, passes.shift_to_uint8, 5)
    moved = [n for n in graph if n.op_type.endswith("Linear") and n.inputs[2].const_value.numpy().dtype == np.uint8]
    assert sorted({int(n.inputs[2].const_value.numpy()) for n in moved}) == [108, 121, 131]
    constant = next(n for n in moved if n.inputs[0].const_value is not None)
    assert constant.inputs[0].const_value.numpy().reshape(-1).tolist() == [133]
    weight = next(n for n in graph if n.op_type == "Conv").inputs[1].producer()
    assert weight.inputs[0].const_value.numpy().dtype == np.int8


def clamped(sheet, kind, *bounds, zero=0, between=False):
    """x -> Q -> DQ -> Conv (-> Q -> DQ) -> Clip -> Q -> DQ."""
    y = sheet.conv(sheet.both(sheet.x))
    y = sheet.both(y, 0.1, zero) if between else y
    return sheet.done(sheet.both(sheet.call(kind, y, *bounds), 0.1, zero))


@pytest.mark.parametrize(
    ("kind", "bounds", "limits"),
    [
        ("Relu", (), (3, None)),
        ("Clip", (np.float32(0), np.float32(6)), (3, 63)),
        ("Clip", (np.float32(-1),), (-7, None)),
        ("Clip", (None, np.float32(1e9)), (None, 127)),
        ("Clip", (np.float32(-np.inf), np.float32(2)), (-128, 23)),
    ],
)
@pytest.mark.parametrize("between", [False, True])
def test_clamps_move_to_integers(kind, bounds, limits, between):
    graph = clamped(Sheet(), kind, *bounds, zero=3, between=between)
    assert_kept(graph, passes.clamp_integers, 1)
    assert kinds(graph)[-4:] == ["Conv", "QuantizeLinear", "Clip", "DequantizeLinear"]
    clip = graph[-2]
    found = [None if v is None else int(v.const_value.numpy()) for v in [*clip.inputs[1:], None][:2]]
    assert tuple(found) == limits


def test_a_clamp_with_a_float_reader_stays():
    sheet = Sheet()
    y = sheet.call("Relu", sheet.conv(sheet.both(sheet.x)))
    graph = sheet.done(sheet.both(y), sheet.call("Neg", y))
    assert_kept(graph, passes.clamp_integers, 0)


@pytest.mark.parametrize(("fill", "steps"), [(0.0, 3), (1.0, 13), (-np.inf, -128)])
def test_padding_of_one_scale_moves_to_integers(fill, steps):
    sheet = Sheet()
    y = sheet.call("Pad", sheet.both(sheet.x, 0.1, 3), np.int64([0, 0, 1, 0, 0, 0, 0, 2]), np.float32(fill))
    graph = sheet.done(sheet.both(y, 0.1, 3))
    assert_kept(graph, passes.pad_integers, 1)
    assert kinds(graph) == ["QuantizeLinear", "Pad", "DequantizeLinear"]
    assert int(graph[1].inputs[2].const_value.numpy()) == steps


def test_padding_between_two_scales_stays():
    graph = padded(Sheet(), between=0.2)
    assert passes.pad_integers(graph) == 0


def test_edges_become_integer():
    sheet = Sheet()
    graph = sheet.done(sheet.dq(sheet.q(sheet.call("Relu", sheet.both(sheet.x, 0.1, 3)), 0.2, -5), 0.2, -5))
    x = np.random.default_rng(1).integers(-128, 128, (1, 2, 4, 4)).astype(np.int8)
    (before,) = run(graph, ((x - 3.0) * 0.1).astype(np.float32))
    name = graph.outputs[0].name
    assert passes.strip_edges(graph) == 2
    assert (graph.inputs[0].dtype, graph.outputs[0].dtype) == (ir.DataType.INT8, ir.DataType.INT8)
    assert (graph.inputs[0].name, graph.outputs[0].name) == ("x", name)
    (after,) = run(graph, x)
    np.testing.assert_allclose((after + 5.0) * 0.2, before, atol=1e-5)


def test_float_edges_stay():
    sheet = Sheet()
    graph = sheet.done(sheet.call("Relu", sheet.x))
    assert_kept(graph, passes.strip_edges, 0)

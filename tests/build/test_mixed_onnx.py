"""Float layers inside an integer ONNX graph: ONNX Runtime must compute them as they are."""

import numpy as np
import onnx_ir as ir
import pytest
from test_onnx_passes import Sheet

from edgekit.build.lowerings.onnx_floats import keep_floats
from edgekit.build.operators import float_operators, read

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.filterwarnings("ignore")


def conv_sheet(*, shape=(1, 2, 4, 4)):
    """`Q -> DQ -> Conv with float weights -> Q -> DQ`."""
    sheet = Sheet(shape)
    weight = np.random.default_rng(0).normal(0, 1, (3, shape[1], 2, 2)).astype(np.float32)
    entry = sheet.both(sheet.x)
    entry.shape = ir.Shape(shape)
    return sheet.done(sheet.both(sheet.call("Conv", entry, weight, np.zeros(3, np.float32), pads=[0, 0, 0, 0])))


def gemm_sheet():
    sheet = Sheet((1, 6))
    weight = np.random.default_rng(0).normal(0, 1, (3, 6)).astype(np.float32)
    entry = sheet.both(sheet.x)
    entry.shape = ir.Shape((1, 6))
    layer = sheet.call("Gemm", entry, weight, np.zeros(3, np.float32), rank=2, transB=1)
    sheet_out = sheet.both(layer)
    sheet_out.shape = ir.Shape([None, None])
    return sheet.done(sheet_out)


def floats(graph, tmp_path):
    """Float layers that ONNX Runtime makes of a graph."""
    path = tmp_path / "graph.onnx"
    path.write_bytes(ir.to_proto(ir.Model(graph, ir_version=10)).SerializeToString())
    return sum(o.count for o in float_operators(read("onnx", path)))


@pytest.mark.parametrize("make", [conv_sheet, gemm_sheet])
def test_onnxruntime_rounds_weights_on_its_own_unless_told_not_to(make, tmp_path):
    assert floats(make(), tmp_path) == 0, "ONNX Runtime leaves float layers alone now: drop keep_floats"
    graph = make()
    assert keep_floats(graph) == 1
    assert floats(graph, tmp_path) == 1


def test_the_step_into_a_float_layer_keeps_its_scale():
    graph = conv_sheet()
    keep_floats(graph)
    (layer,) = [n for n in graph if n.op_type == "Conv"]
    step = layer.inputs[0].producer()
    scale, zero = (ir.convenience.get_const_tensor(v).numpy() for v in step.inputs[1:])
    assert step.attributes["axis"].as_int() == 1
    assert scale.tolist() == pytest.approx([0.1, 0.1])
    assert zero.tolist() == [0, 0]


def test_integer_layers_are_left_alone():
    sheet = Sheet()
    graph = sheet.done(sheet.both(sheet.conv(sheet.both(sheet.x))))
    assert keep_floats(graph) == 0

"""Float layers of a recipe: what is quantized around them, what is left alone, and what the gates let through."""

import functools

import pytest
import torch
from small_graphs import EXAMPLE, Net, images, operators
from torch import nn
from torch.nn import functional as F

from edgekit.build.gates import check_layers, check_payload
from edgekit.build.integer import DEQUANTIZE_CHANNELS, QUANTIZE, integer_edges
from edgekit.build.parting import beginning
from edgekit.build.programs import graph_of
from edgekit.build.quantize import quantize
from edgekit.build.recipe import PLAIN, Recipe
from edgekit.build.walk import linears
from edgekit.spec.errors import GoalError, InputError
from edgekit.spec.manifest import OperatorCount, Placement

pytestmark = pytest.mark.filterwarnings("ignore")

Q, DQ = "quantize_per_tensor", "dequantize_per_tensor"


def program(join, **parts):
    torch.manual_seed(0)
    return torch.export.export(Net(join, **parts).eval(), (torch.zeros(EXAMPLE),), strict=False)


@functools.cache
def three():
    return program(
        lambda net, x: net.third(F.relu6(net.second(F.relu6(net.first(x))))),
        first=nn.Conv2d(3, 4, 3, padding=1),
        second=nn.Conv2d(4, 4, 3, padding=1, groups=4),
        third=nn.Conv2d(4, 5, 1),
    )


@functools.cache
def quantized(source, *layers, recipe=PLAIN):
    return quantize(source, [images()], recipe=Recipe(recipe.observer, False, recipe.rounding, recipe.bias_correction, layers))


def steps(found):
    """Operators of the folded form, without those that open its weights."""
    return [kind for kind in operators(graph_of(found.folded)) if kind != "dequantize_per_channel"]


def floats(found):
    """Names of layers of the folded form whose weights are float."""
    return tuple(n.name for n in linears(found.folded.graph_module) if n.args[1].target is not DEQUANTIZE_CHANNELS)


@pytest.mark.parametrize("layers", [("conv2d",), ("conv2d_1",), ("conv2d_2",), ("conv2d", "conv2d_1"), ("conv2d", "conv2d_2")])
def test_exactly_the_named_layers_are_float_in_both_forms(layers):
    found = quantized(three(), *layers)
    assert floats(found) == found.float_layers == layers
    kept = [n for n in linears(found.unfolded.graph_module) if n.args[1].target is not DEQUANTIZE_CHANNELS]
    assert len(kept) == len(layers)


def test_one_quantize_step_in_and_one_out():
    kinds = steps(quantized(three(), "conv2d_1"))
    # The clamps are implied by the ranges.
    assert kinds == [Q, DQ, "conv2d", Q, DQ, "conv2d", Q, DQ, "conv2d", Q, DQ]


def test_nothing_is_quantized_between_float_layers():
    kinds = steps(quantized(three(), "conv2d", "conv2d_1"))
    assert kinds == [Q, DQ, "conv2d", "relu6", "conv2d", Q, DQ, "conv2d", Q, DQ]


@pytest.mark.parametrize("layers", [("conv2d",), ("conv2d_2",), ("conv2d", "conv2d_1", "conv2d_2")])
def test_edges_are_integer(layers):
    graph = graph_of(quantized(three(), *layers).folded)
    integer_edges(graph)
    with torch.no_grad():
        out = graph(torch.zeros(EXAMPLE, dtype=torch.int8))
    assert (out[0] if isinstance(out, tuple) else out).dtype is torch.int8


def test_a_padding_belongs_to_the_float_layer_behind_it():
    source = program(
        lambda net, x: net.last(F.relu(net.depth(F.pad(F.relu(net.stem(x)), (0, 1, 0, 1))))),
        stem=nn.Conv2d(3, 4, 3),
        depth=nn.Conv2d(4, 4, 3, stride=2, groups=4),
        last=nn.Conv2d(4, 4, 1),
    )
    kinds = steps(quantized(source, "conv2d_1"))
    assert kinds == [Q, DQ, "conv2d", Q, DQ, "pad", "conv2d", Q, DQ, "conv2d", Q, DQ]


def test_a_result_with_two_readers_is_quantized_once():
    source = program(lambda net, x: F.hardswish(net.conv(x)), conv=nn.Conv2d(3, 4, 1))
    graph = graph_of(quantized(source, "conv2d").folded)
    (layer,) = linears(graph)
    (reader,) = layer.users
    assert reader.target is QUANTIZE


def test_a_float_reader_gets_what_was_computed():
    """The first layer is read by a float and by an integer layer."""
    source = program(
        lambda net, x: net.a(y := net.stem(x)) + net.b(y), stem=nn.Conv2d(3, 4, 1), a=nn.Conv2d(4, 4, 1), b=nn.Conv2d(4, 4, 1)
    )
    graph = graph_of(quantized(source, "conv2d", "conv2d_1").folded)
    stem, first, second = linears(graph)
    assert first.args[0] is stem
    assert second.args[0] is not stem


@pytest.mark.parametrize("repairs", [(False, False), (True, True)])
def test_weights_and_biases_of_float_layers_stay_as_they_were(repairs):
    source = three()
    found = quantized(source, "conv2d_1", recipe=Recipe("minmax", rounding=repairs[0], bias_correction=repairs[1]))
    for form in (found.folded, found.unfolded):
        values = [tensor for name, tensor in {**form.state_dict, **form.constants}.items() if torch.is_tensor(tensor)]
        for wanted in (source.state_dict["second.weight"], source.state_dict["second.bias"]):
            assert any(v.shape == wanted.shape and torch.equal(v, wanted) for v in values)


def test_a_float_layer_brings_its_error_back():
    source, photos = three(), images(seed=3)
    wanted = source.module()(photos[:1])

    def error(*layers):
        with torch.no_grad():
            return float((quantized(source, *layers).folded.module()(photos[:1]) - wanted).square().mean())

    everything = ("conv2d", "conv2d_1", "conv2d_2")
    assert error(*everything) < error()


def test_names_hold_although_export_numbers_layers_anew():
    """A pooling becomes a convolution ahead of the second layer."""
    source = program(
        lambda net, x: net.second(F.avg_pool2d(F.relu(net.first(x)), 2)), first=nn.Conv2d(3, 4, 1), second=nn.Conv2d(4, 6, 1)
    )
    found = quantized(source, "conv2d_1")
    (name,) = floats(found)
    assert found.float_layers == (name,)
    (layer,) = [n for n in linears(found.folded.graph_module) if n.name == name]
    assert layer.meta["val"].shape[1] == 6


@pytest.mark.parametrize(("name", "near"), [("conv2d_11", "conv2d_1"), ("nothing", "conv2d"), ("relu6", "conv2d")])
def test_an_unknown_layer_is_refused_before_calibration(name, near):
    def batches():
        raise AssertionError("photos were read")
        yield

    with pytest.raises(InputError, match=name) as caught:
        quantize(three(), batches(), recipe=Recipe(float_layers=("conv2d", name)))
    assert caught.value.code == "float-layers"
    assert near in caught.value.fix


def test_layers_that_are_not_named_are_refused():
    found = quantized(three(), "conv2d", "conv2d_1")
    check_layers(found.folded, allowed=found.float_layers)
    with pytest.raises(GoalError, match=r"1 layers would run in float.*conv2d_1") as caught:
        check_layers(found.folded, allowed=("conv2d",))
    assert caught.value.code == "float-operator"
    with pytest.raises(GoalError, match="2 layers"):
        check_layers(found.folded)


CONV, ADD = OperatorCount("Conv", "float32", 1), OperatorCount("Add", "float32", 3)


@pytest.mark.parametrize(
    ("operators", "allowed", "told"),
    [
        ((ADD,), 0, ""),
        ((CONV, ADD), 1, ""),
        ((CONV, OperatorCount("DepthwiseConv2d", "float16", 2, "XNNPACK")), 3, ""),
        ((CONV,), 0, "holds float operators: 1 Conv"),
        ((CONV, OperatorCount("Gemm", "float32", 1)), 1, "1 Conv .float32., 1 Gemm .float32.; 1 layers were meant"),
        ((OperatorCount("aten::convolution", "", 1),), 0, "1 aten::convolution"),
        ((OperatorCount("QLinearConv", "uint8", 9),), 1, "too few float operators: none; 1 layers"),
    ],
)
def test_payloads_hold_as_many_float_layers_as_named(operators, allowed, told):
    placement = Placement("CPU", None, operators)
    if not told:
        check_payload("onnx", placement, allowed=allowed)
        return
    with pytest.raises(GoalError, match=told) as caught:
        check_payload("onnx", placement, allowed=allowed)
    assert caught.value.code == "float-operator"


@pytest.mark.parametrize("layer", ["conv2d", "conv2d_1", "conv2d_2"])
def test_a_mixed_network_can_be_cut_where_payloads_part(layer):
    found = quantized(three(), "conv2d_1")
    part = beginning(found, layer)
    assert part.float_layers == found.float_layers
    flat = part.folded.module()(images()[:1])
    assert flat[0].shape[0] == 1

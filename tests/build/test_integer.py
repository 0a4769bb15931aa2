"""Rewrites of a converted graph, on graphs that are written by hand: scales are chosen, not calibrated."""

import pytest
import torch
from torch import fx, nn

from edgekit.build.integer import (
    DEQUANTIZE,
    DEQUANTIZE_CHANNELS,
    QUANTIZE,
    Edge,
    canonical_biases,
    clamp_bounds,
    drop_implied_clamps,
    edges,
    integer_edges,
)
from edgekit.spec.errors import GoalError

aten = torch.ops.aten
LIMITS = (-128, 127, torch.int8)


class Sheet:
    """Writes a graph line by line."""

    def __init__(self):
        self.owner = nn.Module()
        self.graph = fx.Graph()
        self.x = self.graph.placeholder("x")

    def call(self, operator, *args):
        return self.graph.call_function(operator, args)

    def constant(self, name, tensor):
        self.owner.register_buffer(name, tensor)
        return self.graph.get_attr(name)

    def quantize(self, value, scale=0.1, zero_point=0):
        return self.call(QUANTIZE, value, scale, zero_point, *LIMITS)

    def dequantize(self, value, scale=0.1, zero_point=0):
        return self.call(DEQUANTIZE, value, scale, zero_point, *LIMITS)

    def both(self, value, scale=0.1, zero_point=0):
        return self.dequantize(self.quantize(value, scale, zero_point), scale, zero_point)

    def done(self, *outputs):
        self.graph.output(outputs if len(outputs) > 1 else outputs[0])
        return fx.GraphModule(self.owner, self.graph)


def names(module):
    return [n.target.__name__.split(".")[0] for n in module.graph.nodes if n.op == "call_function"]


def clamped(operator, *args, scale, zero_point):
    """x -> clamp -> quantize -> dequantize."""
    sheet = Sheet()
    return sheet.done(sheet.both(sheet.call(operator, sheet.x, *args), scale, zero_point))


@pytest.mark.parametrize(
    ("operator", "args", "bounds"),
    [
        (aten.relu.default, (), (0, float("inf"))),
        (aten.relu6.default, (), (0, 6)),
        (aten.hardtanh.default, (), (-1, 1)),
        (aten.hardtanh_.default, (0.0, 6.0), (0, 6)),
        (aten.clamp.default, (-2.0,), (-2, float("inf"))),
        (aten.clamp.default, (None, 3), (-float("inf"), 3)),
        (aten.clamp_min.default, (0.5,), (0.5, float("inf"))),
    ],
)
def test_bounds_of_a_clamp(operator, args, bounds):
    sheet = Sheet()
    assert clamp_bounds(sheet.call(operator, sheet.x, *args)) == bounds


@pytest.mark.parametrize(
    ("operator", "args", "scale", "zero_point", "implied"),
    [
        pytest.param(aten.relu.default, (), 0.1, -128, True, id="relu-all-positive"),
        pytest.param(aten.relu.default, (), 0.1, -127, False, id="relu-one-step-below-zero"),
        pytest.param(aten.relu.default, (), 0.1, 0, False, id="relu-shared-with-signed"),
        pytest.param(aten.relu6.default, (), 6 / 255, -128, True, id="relu6-spans-its-range"),
        pytest.param(aten.relu6.default, (), 3 / 255, -128, True, id="relu6-never-reaches-six"),
        pytest.param(aten.relu6.default, (), 6.01 / 255, -128, True, id="relu6-within-half-a-step"),
        pytest.param(aten.relu6.default, (), 6.1 / 255, -128, False, id="relu6-beyond-half-a-step"),
        pytest.param(aten.hardtanh.default, (), 1 / 128, 0, True, id="hardtanh-symmetric"),
        pytest.param(aten.hardtanh.default, (), 1 / 64, 0, False, id="hardtanh-too-wide"),
        pytest.param(aten.clamp.default, (0.5,), 0.1, -128, False, id="clamp-above-the-lowest"),
        pytest.param(aten.clamp.default, (None, 25.5), 0.1, -128, True, id="clamp-from-above"),
    ],
)
def test_a_clamp_goes_exactly_where_saturation_does_its_work(operator, args, scale, zero_point, implied):
    module = clamped(operator, *args, scale=scale, zero_point=zero_point)
    before = module(grid := torch.linspace(-40, 40, 20001))
    assert drop_implied_clamps(module) == int(implied)
    assert names(module) == ([] if implied else [operator.__name__.split(".")[0]]) + [
        "quantize_per_tensor",
        "dequantize_per_tensor",
    ]
    assert torch.equal(module(grid), before)


def test_a_clamp_with_a_float_reader_stays():
    sheet = Sheet()
    relu = sheet.call(aten.relu.default, sheet.x)
    module = sheet.done(sheet.both(relu, 0.1, -128), relu)
    assert drop_implied_clamps(module) == 0


def test_a_clamp_with_two_quantized_readers_goes_only_if_both_imply_it():
    for zero_point, dropped in ((-128, 1), (0, 0)):
        sheet = Sheet()
        relu = sheet.call(aten.relu.default, sheet.x)
        module = sheet.done(sheet.both(relu, 0.1, -128), sheet.both(relu, 0.2, zero_point))
        assert drop_implied_clamps(module) == dropped


def convolution(bias, *, scale_x=0.05, scale_w=(0.01, 0.02), between=None, quantized=True):
    sheet = Sheet()
    x = sheet.both(sheet.x, scale_x) if quantized else sheet.x
    if between is not None:
        x = sheet.call(between[0], x, *between[1:])
    weight = sheet.constant("weight", torch.ones(2, 3, 1, 1, dtype=torch.int8))
    scales = sheet.constant("scales", torch.tensor(scale_w))
    zeros = sheet.constant("zeros", torch.zeros(2, dtype=torch.int64))
    weight = sheet.call(DEQUANTIZE_CHANNELS, weight, scales, zeros, 0, -127, 127, torch.int8)
    bias = None if bias is None else sheet.constant("bias", torch.tensor(bias))
    return sheet.done(sheet.both(sheet.call(aten.conv2d.default, x, weight, bias)))


@pytest.mark.parametrize("between", [None, (aten.pad.default, [1, 1, 1, 1]), (aten.max_pool2d.default, [1, 1])])
def test_biases_land_on_the_grid(between):
    module, other = convolution([0.123456, -7.654321], between=between), convolution([0.123456, -7.654321])
    assert canonical_biases(module, (other,)) == 1
    steps = module.bias.double() / (0.05 * torch.tensor([0.01, 0.02]).double())
    assert torch.allclose(steps, steps.round(), atol=1e-3, rtol=0)
    assert torch.equal(steps.round(), torch.tensor([247.0, -7654.0]).double())
    assert torch.equal(other.bias, module.bias)
    kept = module.bias.clone()
    canonical_biases(module)
    assert torch.equal(module.bias, kept)


def test_biases_of_float_operators_and_missing_ones_stay():
    module = convolution([0.123456, 1.0], quantized=False)
    assert canonical_biases(module) == 0
    assert float(module.bias[0]) == pytest.approx(0.123456)
    assert canonical_biases(convolution(None)) == 0


def test_a_bias_beyond_int32_is_an_error_that_names_the_layer():
    with pytest.raises(GoalError) as caught:
        canonical_biases(convolution([0.0, 5000.0], scale_x=1e-3, scale_w=(1e-4, 1e-4)))
    assert (caught.value.code, caught.value.where) == ("bias-overflow", "conv2d_default")


def identity(*, quantize_input=True, quantize_output=True):
    sheet = Sheet()
    x = sheet.both(sheet.x, 0.1, 3) if quantize_input else sheet.call(aten.relu.default, sheet.x)
    y = sheet.call(aten.flatten.using_ints, x, 1)
    return sheet.done(sheet.both(y, 0.2, -5) if quantize_output else y)


def test_edges_are_read():
    assert edges(identity()) == (Edge(0.1, 3), (Edge(0.2, -5),))


@pytest.mark.parametrize(
    ("options", "where"), [({"quantize_input": False}, "relu_default"), ({"quantize_output": False}, "flatten_using_ints")]
)
def test_float_edges_are_an_error_that_names_the_operator(options, where):
    for check in (edges, integer_edges):
        with pytest.raises(GoalError) as caught:
            check(identity(**options))
        assert (caught.value.code, caught.value.where) == ("float-edge", where)
        assert "fp16" in caught.value.fix


def two_readers(second):
    """x -> quantize -> dequantize -> + <- dequantize <- second(x)."""
    sheet = Sheet()
    total = sheet.call(aten.add.Tensor, sheet.both(sheet.x, 0.1, 3), second(sheet))
    return sheet.done(sheet.both(total, 0.2, 0))


def test_an_input_may_be_quantized_twice_alike():
    module = two_readers(lambda sheet: sheet.both(sheet.x, 0.1, 3))
    assert edges(module)[0] == Edge(0.1, 3)
    integer_edges(module)
    assert names(module).count("quantize_per_tensor") == 1


@pytest.mark.parametrize(
    "second", [lambda sheet: sheet.call(aten.relu.default, sheet.x), lambda sheet: sheet.both(sheet.x, 0.1, 4)]
)
def test_an_input_with_a_float_or_another_reader_is_an_error(second):
    with pytest.raises(GoalError) as caught:
        edges(two_readers(second))
    assert caught.value.code == "float-edge"


def test_integer_edges_leave_integers_outside():
    module = identity()
    x = torch.randint(-128, 128, (1, 3, 2, 2), dtype=torch.int8)
    wanted = module((x - 3.0) * 0.1)
    integer_edges(module)
    assert names(module) == ["dequantize_per_tensor", "flatten", "quantize_per_tensor"]
    (y,) = module(x)
    assert y.dtype is torch.int8
    assert torch.allclose((y + 5.0) * 0.2, wanted)

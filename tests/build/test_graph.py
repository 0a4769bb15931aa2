"""Batch norms and hard activations: the rewritten graph gives what the first one gave."""

import pytest
import torch
from small_graphs import graph, operators, outputs
from torch import nn
from torch.nn import functional as F

from edgekit.build.graph import attribute, fold_batch_norm, rewrite_hard_activations, set_attribute


def assert_same(module, before, tolerance=1e-5):
    after = outputs(module)
    assert after.shape == before.shape
    assert float((after - before).abs().max()) <= tolerance * max(1.0, float(before.abs().max()))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("options", [{}, {"groups": 3, "stride": 2, "padding": 1}])
def test_batch_norm_folds(bias, options):
    module = graph(lambda net, x: net.norm(net.conv(x)), conv=nn.Conv2d(3, 6, 3, bias=bias, **options), norm=nn.BatchNorm2d(6))
    before = outputs(module)
    assert fold_batch_norm(module) == 1
    assert operators(module) == ["conv2d"]
    assert_same(module, before)


def test_batch_norm_without_scale_folds():
    module = graph(lambda net, x: net.norm(net.conv(x)), conv=nn.Conv2d(3, 6, 3), norm=nn.BatchNorm2d(6, affine=False))
    before = outputs(module)
    assert fold_batch_norm(module) == 1
    assert_same(module, before)


def test_batch_norm_stays_where_the_convolution_has_another_reader():
    module = graph(lambda net, x: net.norm(y := net.conv(x)) + y, conv=nn.Conv2d(3, 6, 3), norm=nn.BatchNorm2d(6))
    before = outputs(module)
    assert fold_batch_norm(module) == 0
    assert "batch_norm" in operators(module)
    assert_same(module, before, 0)


def test_batch_norm_behind_something_else_stays():
    module = graph(lambda net, x: net.norm(F.relu(net.conv(x))), conv=nn.Conv2d(3, 6, 3), norm=nn.BatchNorm2d(6))
    assert fold_batch_norm(module) == 0


def test_a_shared_convolution_keeps_its_weights():
    """One convolution called twice, a batch norm behind one of the calls only."""
    module = graph(lambda net, x: net.norm(net.conv(x)) + net.conv(x * 0.5), conv=nn.Conv2d(3, 6, 3), norm=nn.BatchNorm2d(6))
    before = outputs(module)
    weight = module.conv.weight.detach().clone()
    assert fold_batch_norm(module) == 1
    assert torch.equal(module.conv.weight, weight)
    assert_same(module, before)


@pytest.mark.parametrize("activation", [F.hardswish, F.hardsigmoid])
@pytest.mark.parametrize(
    ("join", "count"),
    [
        pytest.param(lambda f, net, x: f(net.conv(x)), 1, id="after-conv"),
        pytest.param(lambda f, net, x: f(F.max_pool2d(x, 2)), 1, id="not-after-conv"),
        pytest.param(lambda f, net, x: f(y := net.conv(x)) + y, 1, id="two-readers"),
        pytest.param(lambda f, net, x: f(net.conv(x)) + net.conv(x * 0.5), 1, id="shared-conv"),
        pytest.param(lambda f, net, x: f(f(net.conv(x))), 2, id="twice"),
        pytest.param(lambda f, net, x: f(x.mean((2, 3))), 1, id="rank-2"),
    ],
)
def test_hard_activations_are_equal(activation, join, count):
    module = graph(lambda net, x: join(activation, net, x), conv=nn.Conv2d(3, 6, 3))
    before = outputs(module)
    assert rewrite_hard_activations(module) == count
    assert not {"hardswish", "hardsigmoid"} & set(operators(module))
    assert_same(module, before)


def test_hard_swish_after_a_linear_layer_folds_its_factor():
    module = graph(lambda net, x: F.hardswish(net.head(torch.flatten(x, 1))), head=nn.Linear(192, 4, bias=False))
    before = outputs(module)
    assert rewrite_hard_activations(module) == 1
    assert operators(module) == ["flatten", "linear", "add", "hardtanh", "mul"]
    assert_same(module, before)


def test_hard_swish_after_a_convolution_costs_an_add_and_a_mul():
    module = graph(lambda net, x: F.hardswish(net.conv(x)), conv=nn.Conv2d(3, 6, 3))
    rewrite_hard_activations(module)
    assert operators(module) == ["conv2d", "add", "hardtanh", "mul"]


def test_hard_sigmoid_after_a_convolution_costs_a_clamp():
    module = graph(lambda net, x: F.hardsigmoid(net.conv(x)), conv=nn.Conv2d(3, 6, 3))
    rewrite_hard_activations(module)
    assert operators(module) == ["conv2d", "hardtanh"]


def test_new_attributes_never_replace_old_ones():
    module = graph(lambda net, x: net.conv(x), conv=nn.Conv2d(3, 6, 3))
    node = next(n for n in module.graph.nodes if n.op == "call_function")
    names = [set_attribute(module, "conv.extra", torch.full((1,), float(i)), before=node).target for i in range(3)]
    assert len(set(names)) == 3
    assert [float(attribute(module, name)) for name in names] == [0, 1, 2]


def test_an_attribute_that_is_no_tensor_is_refused():
    module = graph(lambda net, x: net.conv(x), conv=nn.Conv2d(3, 6, 3))
    with pytest.raises(TypeError, match="not a tensor"):
        attribute(module, "conv")

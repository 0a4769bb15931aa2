"""Biases that take back what quantization shifted."""

import copy

import pytest
import torch
from small_graphs import EXAMPLE, Net
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from edgekit.build.bias_correction import correct_biases, correction
from edgekit.build.graph import attribute
from edgekit.build.integer import DEQUANTIZE, QUANTIZE
from edgekit.build.programs import graph_of
from edgekit.build.quantizer import EdgeQuantizer
from edgekit.build.recipe import Recipe
from edgekit.build.walk import linears


def photos(n=20, *, seed=1):
    return torch.rand(n, *EXAMPLE[1:], generator=torch.Generator().manual_seed(seed))


def converted(join, **parts):
    torch.manual_seed(0)
    graph = graph_of(torch.export.export(Net(join, **parts).eval(), (torch.zeros(EXAMPLE),), strict=False))
    prepared = prepare_pt2e(copy.deepcopy(graph), EdgeQuantizer(Recipe(observer="minmax")))
    for photo in photos():
        prepared(photo[None])
    return graph, convert_pt2e(prepared)


def two_layers(net, x):
    return net.second(net.first(x).relu()).mean((2, 3))


def parts():
    return {"first": nn.Conv2d(3, 4, 3, padding=1), "second": nn.Conv2d(4, 5, 1)}


def shift(graph, folded):
    """Largest mean error of an output on photos that correction did not see."""
    with torch.no_grad():
        off = torch.stack([graph(p[None]) - folded(p[None]) for p in photos(seed=2)])
    return float(off.mean(0).abs().max())


def bias_of(folded, index):
    return attribute(folded, linears(folded)[index].args[2].target)


def test_a_shifted_layer_is_put_back():
    graph, folded = converted(two_layers, **parts())
    right = bias_of(folded, 0).clone()
    bias_of(folded, 0).data -= 0.2
    before = shift(graph, folded)
    assert correct_biases(graph, folded, photos()) == 2
    assert shift(graph, folded) < before / 4
    assert torch.allclose(bias_of(folded, 0), right, atol=0.01)


def test_later_layers_do_not_pay_for_earlier_ones():
    graph, folded = converted(two_layers, **parts())
    right = bias_of(folded, 1).clone()
    bias_of(folded, 0).data -= 0.2
    correct_biases(graph, folded, photos())
    assert torch.allclose(bias_of(folded, 1), right, atol=0.01)


def test_the_float_network_stays_as_it_was():
    graph, folded = converted(two_layers, **parts())
    before = {name: tensor.clone() for name, tensor in graph.state_dict().items()}
    correct_biases(graph, folded, photos())
    assert all(torch.equal(before[name], tensor) for name, tensor in graph.state_dict().items())


def test_it_repeats():
    biases = []
    for _ in range(2):
        graph, folded = converted(two_layers, **parts())
        correct_biases(graph, folded, photos(37))
        biases.append(bias_of(folded, 1).clone())
    assert torch.equal(*biases)


@pytest.mark.parametrize("layer", [nn.Linear(8, 3), nn.Conv1d(24, 5, 1)])
def test_layers_of_other_ranks(layer):
    def join(net, x):
        return net.layer(x.flatten(1, 2) if isinstance(layer, nn.Conv1d) else x)

    graph, folded = converted(join, layer=layer)
    right = bias_of(folded, 0).clone()
    bias_of(folded, 0).data += torch.linspace(0.1, 0.3, len(right))
    assert correct_biases(graph, folded, photos()) == 1
    assert torch.allclose(bias_of(folded, 0), right, atol=0.02)


def test_layers_without_a_bias_or_with_a_shared_one_are_left_alone():
    def join(net, x):
        return net.twice(net.twice(net.bare(x))).mean((2, 3))

    graph, folded = converted(join, bare=nn.Conv2d(3, 3, 1, bias=False), twice=nn.Conv2d(3, 3, 1))
    assert correct_biases(graph, folded, photos()) == 0


def test_a_steady_error_is_corrected_and_a_scattered_one_hardly():
    steady, scattered = torch.full((10, 1), 0.5), torch.tensor([[2.0], [-1.9]] * 5)
    assert correction(steady).item() == pytest.approx(0.5)
    assert 0 < correction(scattered).item() < 0.01
    assert correction(torch.zeros(3, 2)).tolist() == [0.0, 0.0]


def test_input_and_output_keep_their_whole_range():
    graph, _ = converted(two_layers, **parts())
    prepared = prepare_pt2e(graph, EdgeQuantizer())
    images = photos()
    images[0, 0, 0, 0] = 9.0
    for image in images:
        prepared(image[None])
    entry, *_ = (n for n in convert_pt2e(prepared).graph.nodes if n.target is QUANTIZE)
    _, scale, zero_point, _, most = entry.args[:5]
    assert scale * (most - zero_point) == pytest.approx(9.0, abs=scale)
    assert any(user.target is DEQUANTIZE for user in entry.users)

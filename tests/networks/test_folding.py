"""Batch norms are gone from every exported program that is lowered, and the function is the same."""

import pytest
import torch

from edgekit import catalog
from edgekit.build import programs
from edgekit.build.construct import make_network
from edgekit.build.origin import network_of
from edgekit.build.quantize import integer_graph
from edgekit.build.recipe import Recipe

pytestmark = pytest.mark.slow

SIDE = 64
TOLERANCE = 2e-5
"""Of the largest logit: float32 sums in another order."""


@pytest.fixture(scope="module", params=["efficientnet_lite0", "mobilenet_v2", "mobilenet_v3_small", "resnet18"])
def exported(request):
    network, _ = network_of(catalog.find_model(request.param), weights=None, classes=None, seed=0, resolution_px=SIDE)
    module = make_network(network)
    with torch.no_grad():  # statistics that a fold must not lose
        for layer in module.modules():
            if isinstance(layer, torch.nn.BatchNorm2d):
                layer.running_mean.add_(torch.linspace(-0.1, 0.1, layer.num_features))
                layer.running_var.mul_(torch.linspace(0.8, 1.2, layer.num_features))
    image = torch.randn(1, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    return torch.export.export(module, (image,), strict=False), image, module(image)


def norms(graph):
    return [node for node in graph.nodes if "batch_norm" in str(node.target)]


def test_float_programs_hold_none(exported):
    program, image, wanted = exported
    assert norms(program.graph)
    folded = programs.plain(program)
    assert not norms(folded.graph)
    assert (folded.module()(image) - wanted).abs().max() <= TOLERANCE * wanted.abs().max()


def test_programs_that_are_quantized_hold_none(exported):
    program, image, wanted = exported
    graph, _ = integer_graph(program, [image], recipe=Recipe())
    assert not norms(graph.graph)
    assert (graph(image) - wanted).abs().max() <= TOLERANCE * wanted.abs().max()

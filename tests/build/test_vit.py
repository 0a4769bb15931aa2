"""ViT: equal to timm's network, and quantized dynamically. Weights are random: this proves plumbing, not accuracy."""

import numpy as np
import pytest
import torch
from torch import nn

from edgekit.build.forms_norms import fold_norms, norms_as_products
from edgekit.build.programs import graph_of
from edgekit.build.quantize_dynamic import grids, has_attention, layers, quantize_dynamically
from edgekit.build.sensitivity_dynamic import dynamic_sensitivities
from edgekit.build.user_code import import_file
from edgekit.catalog import find_model
from edgekit.spec.errors import UnknownName

TIMM_TOLERANCE = 2e-5
FOLD_TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def code():
    return import_file(find_model("vit_tiny").spec.family)[0]


@pytest.fixture(scope="module")
def small(code):
    torch.manual_seed(3)
    network = code.VisionTransformer(7, width=128, layers=2, patches=4).eval().requires_grad_(False)
    for parameter in network.parameters():
        parameter.add_(0.05 * torch.randn_like(parameter))
    return network


@pytest.fixture(scope="module")
def program(small):
    return torch.export.export(small, (torch.randn(1, 3, 32, 32),), strict=False)


def test_equals_timm(code):
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    theirs = timm.create_model("vit_tiny_patch16_224", pretrained=False).eval().requires_grad_(False)
    for parameter in theirs.parameters():
        parameter.add_(0.03 * torch.randn_like(parameter))
    ours = code.make("vit_tiny", classes=1000).eval()
    ours.load_state_dict(code.rename(theirs.state_dict()))
    images = torch.randn(2, 3, 224, 224)
    with torch.no_grad():
        assert (ours(images) - theirs(images)).abs().max() < TIMM_TOLERANCE


def test_own_weights_are_not_renamed(code, small):
    assert code.rename(small.state_dict()).keys() == small.state_dict().keys()


def test_only_attention_is_dynamic(program):
    assert has_attention(program)
    gate = torch.export.export(nn.Sequential(nn.Linear(4, 4), nn.Softmax(1)), (torch.zeros(1, 4),), strict=False)
    assert not has_attention(gate)


@pytest.mark.parametrize("rewrite", [fold_norms, norms_as_products])
def test_norms_keep_their_values(program, small, rewrite):
    graph, image = graph_of(program), torch.randn(1, 3, 32, 32)
    assert rewrite(graph) == 5
    assert (graph(image) - small(image)).abs().max() < FOLD_TOLERANCE


def test_weights_lie_on_their_grids(program):
    dynamic = quantize_dynamically(program)
    found = layers(dynamic)
    assert len(found.linears()) == 13
    for name, grid in grids(found).items():
        assert np.array_equal(grid.real(), found.linears()[name].weight.numpy()), name


def test_a_float_layer_stays_as_it_was(program):
    dynamic = quantize_dynamically(program, float_layers=["linear_1"])
    assert len(dynamic.float_layers) == 1
    assert len(layers(dynamic).linears()) == 12
    with pytest.raises(UnknownName):
        quantize_dynamically(program, float_layers=["nobody"])


def test_each_layer_costs_something_alone(program, small):
    torch.manual_seed(0)
    photos = torch.randn(3, 3, 32, 32)
    rows = dynamic_sensitivities(program, photos, labels=[0, 1, 2])
    assert len(rows) == 13
    assert {rows[0].module, rows[-1].module} == {"blocks.0.attn.q", "head"}
    assert (rows[0].macs, rows[-1].macs) == (5 * 128 * 128, 7 * 128)
    assert all(20 < row.snr_db < 80 for row in rows), [row.snr_db for row in rows]
    # Every row names a layer that may stay in float.
    assert len(quantize_dynamically(program, float_layers=[row.layer for row in rows]).float_layers) == 13


@pytest.mark.slow
@pytest.mark.parametrize("kept", [(), ("linear_1", "linear_5")])
@pytest.mark.parametrize("engine", ["executorch", "onnx", "litert"])
def test_every_engine_holds_the_integers(program, small, tmp_path, engine, kept):
    from edgekit.build import operators
    from edgekit.build.lowerings.dynamic import lower
    from edgekit.runtime import engines
    from edgekit.spec.manifest import Entry

    lowered = lower(engine, quantize_dynamically(program, float_layers=kept))  # reads the integers back, and refuses others
    path = tmp_path / f"model.{engine}"
    path.write_bytes(lowered.payload)
    if engine == "executorch":
        assert operators.read(engine, path).delegate_calls == 1
    image = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    array = image.numpy() if lowered.inputs[0].layout == "NCHW" else np.ascontiguousarray(image.permute(0, 2, 3, 1).numpy())
    session = engines.find(engine).load(path, Entry("r", path.name, lowered.method, lowered.inputs, lowered.outputs), threads=1)
    answer = session.run(array)[0]
    session.close()
    wanted = small(image).numpy()
    # ONNX Runtime has one scale for a whole tensor of activations, and random logits are small.
    assert np.linalg.norm(answer - wanted) < 0.1 * np.linalg.norm(wanted)

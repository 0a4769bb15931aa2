"""Plain convolutions as depthwise and pointwise ones."""

import pytest
import torch
from small_stages import Load, named, photos, run, tiny
from torch import nn

from edgekit.build.checkpoint import read_checkpoint, read_history
from edgekit.build.separable import candidates, factorise, replace_layers
from edgekit.build.stages.prune import Prune
from edgekit.build.stages.separable import Separable
from edgekit.build.structure import read_structure
from edgekit.build.training.plan import Training
from edgekit.build.training.size import macs_of
from edgekit.spec.errors import InputError


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Layers this small only wait for each other's threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def net(**options):
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 16, 3), nn.Conv2d(16, 24, 3, **options)).requires_grad_(False)


def rank_one(layer):
    outputs, inputs, *kernel = layer.weight.shape
    layer.weight.copy_(torch.randn(outputs, inputs, 1, 1) * torch.randn(1, inputs, *kernel))


@pytest.mark.parametrize(
    "options", [{}, {"bias": False}, {"stride": 2, "padding": 1}, {"dilation": 2}, {"padding": 1, "padding_mode": "reflect"}]
)
def test_weights_of_rank_one_lose_nothing(options):
    module = net(**options)
    rank_one(module[1])
    x = torch.randn(2, 3, 16, 16)
    expected = module(x)
    ((name, error),) = factorise(module)
    assert name == "1"
    assert error < 1e-6
    assert torch.allclose(module(x), expected, atol=1e-4)
    assert module[1].depthwise.groups == 16
    assert not module[1].pointwise.weight.requires_grad


def test_the_error_is_that_of_the_best_rank_one_weights():
    module = net()
    weight = module[1].weight.double()
    values = torch.linalg.svdvals(weight.permute(1, 0, 2, 3).reshape(16, 24, 9))
    expected = float(((values[:, 1:] ** 2).sum() / (values**2).sum()).sqrt())
    ((_, error),) = factorise(module)
    assert error == pytest.approx(expected, rel=1e-9)
    depthwise, pointwise = module[1].depthwise.weight.double(), module[1].pointwise.weight.double()
    product = depthwise[:, 0][None] * pointwise
    assert float((weight - product).norm() / weight.norm()) == pytest.approx(error, rel=1e-4)


def test_only_layers_that_get_cheaper_are_candidates():
    layers = {
        "stem": nn.Conv2d(3, 32, 3),
        "plain": nn.Conv2d(32, 32, 3),
        "wide": nn.Conv2d(32, 32, 5),
        "depthwise": nn.Conv2d(32, 32, 3, groups=32),
        "point": nn.Conv2d(32, 32, 1),
        "line": nn.Conv2d(32, 32, (1, 3)),
        "one": nn.Conv2d(32, 1, 3),
        "linear": nn.Linear(32, 10),
    }
    assert candidates(nn.ModuleDict(layers)) == ("plain", "wide")


@pytest.mark.parametrize(("name", "why"), [("0", "3 input channels"), ("7", "no such layer"), ("1.weight", "no such layer")])
def test_other_layers_are_refused_by_name(name, why):
    with pytest.raises(InputError, match=why) as caught:
        replace_layers(net(), [name])
    assert caught.value.code == "separable-layer"
    assert caught.value.fix == "name some of: 1"


def test_structure_alone_takes_the_weights_of_a_checkpoint():
    module, other = net(), net()
    factorise(module)
    replace_layers(other, ["1"])
    other.load_state_dict(module.state_dict())
    x = torch.randn(1, 3, 16, 16)
    assert torch.equal(module(x), other(x))


def test_a_network_without_plain_convolutions_is_refused(tmp_path):
    network, facts = named("efficientnet_lite0", classes=10, resolution_px=32)
    source = run(tmp_path, Load(network, facts))
    with pytest.raises(InputError, match="efficientnet_lite0") as caught:
        Separable(network).run(source, tmp_path, lambda fraction, note: None)
    assert caught.value.code == "separable-none"


def test_replaced_and_then_pruned_it_is_read_again_and_exports(tmp_path):
    network, facts = tiny(tmp_path)
    splits = photos(tmp_path / "photos", count=8)
    prune = Prune(network, splits, 0.3, rounds=1, training=Training(epochs=0))
    replaced = run(tmp_path, Load(network, facts), Separable(network))
    told = read_history(replaced.path)["separable"]
    module = read_checkpoint(replaced.path, network)
    assert told["macs_after"] == macs_of(module, 32) < told["macs_before"]
    assert list(told["weight_errors"]) == ["3", "6"]
    out = run(tmp_path, prune, source=replaced)
    structure = read_structure(out.path)
    assert (structure.separable, structure.pruned) == (("3", "6"), True)
    assert set(read_history(out.path)) == {"separable", "prune"}
    smaller = read_checkpoint(out.path, network)
    assert sum(p.numel() for p in smaller.parameters()) <= 0.7 * sum(p.numel() for p in module.parameters())
    torch.export.export(smaller, (torch.zeros(1, 3, 32, 32),), strict=False)
    with pytest.raises(InputError) as caught:
        Separable(network).run(out, tmp_path, lambda fraction, note: None)
    assert caught.value.code == "separable-pruned"


def test_one_layer_by_name(tmp_path):
    network, facts = tiny(tmp_path)
    out = run(tmp_path, Load(network, facts), Separable(network, ("6",)))
    assert read_structure(out.path).separable == ("6",)

"""Channels scaled so that tensors have like ranges, without changing the function."""

import copy
import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small_graphs import EXAMPLE, Net, graph, images, outputs
from torch import nn

from edgekit.build.equalise import equalise
from edgekit.build.forms import integer_forms
from edgekit.build.graph import attribute, fold_batch_norm
from edgekit.build.quantize import quantize, signal_to_noise_db
from edgekit.build.recipe import PLAIN, Recipe
from edgekit.build.ties import find_ties
from edgekit.build.walk import linears

SAME = 1e-5
"""Of the largest output: float32 rounds other products than before."""

GAIN_DB = 15.0
"""A hundredfold spread costs up to 40 dB."""


def prepared(join, **parts):
    found = graph(join, **parts)
    fold_batch_norm(found)
    integer_forms(found)
    return found


def equalised(join, **parts):
    """(graph, how many layers changed, relative change of the outputs)."""
    net = prepared(join, **parts)
    before = outputs(net)
    changed = equalise(net, images())
    return net, changed, float((before - outputs(net)).abs().max() / before.abs().max())


def conv(inputs, outputs, kernel=1, **options):
    """With rows of very different size."""
    layer = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, **options)
    with torch.no_grad():
        layer.weight.mul_(torch.logspace(-1, 1, outputs).view(-1, 1, 1, 1))
    return layer


def chain(net, x):
    return net.head(net.second(net.first(x).relu()).relu().mean((2, 3)))


def residual(net, x):
    y = net.first(x)
    y = y + net.project(net.depth(net.expand(y).relu()).relu())
    return net.head((y + net.second(y)).mean((2, 3)))


def squeezed(net, x):
    y = net.first(x).relu()
    gate = net.up(net.down(y.mean((2, 3), keepdim=True)).relu()).sigmoid()
    return net.head((y * gate).mean((2, 3)))


def joined(net, x):
    y = torch.cat([net.first(x).relu(), net.second(x).relu()], 1)
    a, b = y.chunk(2, 1)
    return net.head(torch.cat([nn.functional.max_pool2d(b, 2), nn.functional.max_pool2d(a, 2)], 1).flatten(1))


def grouped(net, x):
    return net.head(net.second(nn.functional.pad(net.first(x).relu(), (0, 1, 0, 1))).relu().mean((2, 3)))


NETS = {
    "chain": (chain, lambda: {"first": conv(3, 8, 3), "second": conv(8, 6, 3), "head": nn.Linear(6, 5)}, 3),
    "residual": (
        residual,
        lambda: {
            "first": conv(3, 6),
            "expand": conv(6, 12),
            "depth": conv(12, 12, 3, groups=12),
            "project": conv(12, 6),
            "second": conv(6, 6),
            "head": nn.Linear(6, 5),
        },
        6,
    ),
    "squeezed": (squeezed, lambda: {"first": conv(3, 8), "down": conv(8, 4), "up": conv(4, 8), "head": nn.Linear(8, 5)}, 4),
    "joined": (joined, lambda: {"first": conv(3, 4), "second": conv(3, 6), "head": nn.Linear(160, 5)}, 3),
    "grouped": (grouped, lambda: {"first": conv(3, 8), "second": conv(8, 8, 3, groups=2), "head": nn.Linear(8, 5)}, 3),
}


@pytest.mark.parametrize("name", NETS)
def test_the_function_stays(name):
    join, parts, layers = NETS[name]
    _, changed, change = equalised(join, **parts())
    assert changed == layers
    assert change < SAME


def per_channel(net, index):
    """Largest output of each channel of a layer, behind relu."""
    seen = []

    class Watch(torch.fx.Interpreter):
        def run_node(self, n):
            value = super().run_node(n)
            if n is linears(net)[index]:
                seen.append(value.relu().amax((0, 2, 3)))
            return value

    with torch.no_grad():
        for image in images():
            Watch(net).run(image[None])
    return torch.stack(seen).amax(0)


def test_channels_that_depthwise_layers_read_get_equal_ranges():
    def join(net, x):
        return net.depth(net.first(x).relu()).mean((2, 3))

    net, changed, change = equalised(join, first=conv(3, 8, 3), depth=conv(8, 8, 3, groups=8))
    ranges = per_channel(net, 0)
    assert changed == 2
    assert change < SAME
    assert ranges.max() / ranges.min() < 1.05


def test_what_stretching_did_is_undone():
    """Not only like: the very same weights, whatever the factors were."""

    def settled(factors):
        net = prepared(chain, **NETS["chain"][1]())
        first, second, _ = linears(net)
        for node, rows in ((first, factors.view(-1, 1, 1, 1)), (second, 1 / factors.view(1, -1, 1, 1))):
            weight = attribute(net, node.args[1].target)
            weight.data = weight * rows
        bias = attribute(net, first.args[2].target)
        bias.data = bias * factors
        equalise(net, images())
        return attribute(net, second.args[1].target)

    spread = torch.logspace(-1, 1, 8)[torch.randperm(8, generator=torch.Generator().manual_seed(3))]
    assert torch.allclose(settled(torch.ones(8)), settled(spread), rtol=0.05)


def bounded(net, x):
    return net.head(nn.functional.relu6(net.first(x)).mean((2, 3)))


def curved(net, x):
    return net.head(nn.functional.hardswish(net.first(x)).mean((2, 3)))


def shifted(net, x):
    return net.head((net.first(x).relu() + 1).mean((2, 3)))


def multiplied(net, x):
    y = net.first(x)
    return net.head((y * y.relu()).mean((2, 3)))


def shared(net, x):
    return net.head(net.first(net.first(x).relu()).relu().mean((2, 3)))


def shuffled(net, x):
    y = net.first(x).relu()
    return net.head(y.view(1, 2, 4, 8, 8).transpose(1, 2).reshape(1, 8, 8, 8).mean((2, 3)))


@pytest.mark.parametrize("join", [bounded, curved, shifted, multiplied, shuffled])
def test_what_does_not_commute_is_left_alone(join):
    _, changed, change = equalised(join, first=conv(3, 8), head=nn.Linear(8, 5))
    assert (changed, change) == (0, 0.0)


def test_shared_weights_are_left_alone():
    net, changed, change = equalised(shared, first=conv(3, 3), head=nn.Linear(3, 5))
    assert (changed, change) == (0, 0.0)
    assert find_ties(net).fixed.all()


def test_a_network_without_free_channels_and_no_photos():
    net = prepared(lambda net, x: net.head(x.mean((2, 3))), head=nn.Linear(3, 5))
    assert equalise(net, images()) == 0
    assert equalise(prepared(chain, **NETS["chain"][1]()), torch.empty(0)) == 0


def test_dead_channels_and_unread_channels_get_finite_factors():
    parts = NETS["chain"][1]()
    with torch.no_grad():
        parts["first"].weight[:3] = 0
        parts["first"].bias[:3] = -1
        parts["second"].weight[:, 4] = 0
    net, _, change = equalised(chain, **parts)
    assert change < SAME
    largest = max(float(attribute(net, node.args[1].target).detach().abs().max()) for node in linears(net))
    assert largest < 1e4
    dead = attribute(net, linears(net)[0].args[2].target)[:3].detach()
    assert dead.tolist() == [-1, -1, -1]  # another photo may wake them


def exported(join, parts):
    torch.manual_seed(0)
    net = Net(join, **parts).eval()
    return torch.export.export(net, (torch.zeros(EXAMPLE),), strict=False)


def stretched_program():
    """A residual stream and what its blocks hold inside, a hundredfold apart."""
    torch.manual_seed(1)
    parts = {
        "first": nn.Conv2d(3, 16, 3, padding=1),
        "expand": nn.Conv2d(16, 32, 1),
        "depth": nn.Conv2d(32, 32, 3, padding=1, groups=32),
        "project": nn.Conv2d(32, 16, 1),
        "second": nn.Conv2d(16, 16, 1),
        "head": nn.Linear(16, 5),
    }
    factors = 100 ** (torch.rand(16) - 0.5)
    with torch.no_grad():
        for name in ("first", "project", "second"):
            parts[name].weight.mul_(factors.view(-1, 1, 1, 1))
            parts[name].bias.mul_(factors)
        for name in ("expand", "second"):
            parts[name].weight.div_(factors.view(1, -1, 1, 1))
        parts["head"].weight.div_(factors)
    return exported(residual, parts)


def test_a_stretched_network_is_restored():
    program, photos = stretched_program(), images(2)
    batches = [image[None] for image in images()]
    plain = quantize(program, batches, recipe=PLAIN)
    mended = quantize(program, iter(batches), recipe=replace(PLAIN, equalise=True))
    before, after = (signal_to_noise_db(program, each, photos=photos) for each in (plain, mended))
    assert after > before + GAIN_DB
    assert len(mended.tensors) == len(plain.tensors)


def test_no_photo_is_lost_to_the_equaliser():
    """The photos that it looked at are calibrated on too."""
    program = stretched_program()
    seen = []
    quantize(program, iter(images().split(1)), recipe=Recipe(equalise=True, rounding=False), seen=seen.append)
    assert seen == [1, 2, 3, 4]


def tool():
    path = Path(__file__).parents[2] / "tools" / "bench" / "stretch.py"
    spec = importlib.util.spec_from_file_location("stretch", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_stretching_tool_refuses_other_families():
    with pytest.raises(ValueError, match="no streams"):
        tool().stretch(nn.Sequential(nn.Conv2d(3, 4, 1)))


def test_the_stretching_tool_keeps_the_function():
    torchvision = pytest.importorskip("torchvision")
    torch.manual_seed(0)
    module = torchvision.models.resnet18(num_classes=5).eval()
    before = copy.deepcopy(module.state_dict())
    stretched = tool().stretch(module, factor=100, side_px=32)
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    ratio = stretched.bn1.weight / module.bn1.weight
    assert 30 < ratio.max() / ratio.min() <= 100

"""Groups of coupled channels: found, proved, or refused with a reason."""

import copy

import pytest
import torch
from small_graphs import Net
from torch import nn

from edgekit.build.pruning.cut import cut, least_important, left, zero
from edgekit.build.pruning.importance import by_taylor, by_weight
from edgekit.build.pruning.sensitivity import Judge, loss_rises
from edgekit.build.pruning.trace import trace
from edgekit.build.training.size import macs_of
from edgekit.spec.errors import InputError

PX = 16


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Layers this small only wait for each other's threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def made(join, **parts):
    torch.manual_seed(0)
    net = Net(join, **parts).eval().requires_grad_(False)
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.normal_()
            layer.weight.uniform_(0.5, 1.5)
            layer.bias.normal_()
    return net


def conv(inputs, outputs, kernel=3, groups=1):
    return nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, groups=groups, bias=False)


def pooled(x):
    return x.mean((2, 3))


def plain():
    return made(
        lambda m, x: m.fc(pooled(m.c(torch.relu(m.norm(m.b(torch.relu(m.a(x)))))))),
        a=conv(3, 16), b=conv(16, 32), norm=nn.BatchNorm2d(32), c=conv(32, 24), fc=nn.Linear(24, 5),
    )  # fmt: skip


def residual():
    return made(
        lambda m, x: m.fc(pooled(m.b(torch.relu(m.a(y := m.stem(x)))) + y)),
        stem=conv(3, 16), a=conv(16, 32), b=conv(32, 16), fc=nn.Linear(16, 5),
    )  # fmt: skip


def joined():
    return made(
        lambda m, x: m.fc(pooled(m.c(torch.cat([m.a(x), m.b(x)], 1)))),
        a=conv(3, 16), b=conv(3, 24), c=conv(40, 8), fc=nn.Linear(8, 5),
    )  # fmt: skip


def grouped():
    return made(
        lambda m, x: m.fc(pooled(m.c(torch.relu(m.b(torch.relu(m.a(x))))))),
        a=conv(3, 32), b=conv(32, 32, groups=4), c=conv(32, 16), fc=nn.Linear(16, 5),
    )  # fmt: skip


def gated():
    return made(
        lambda m, x: m.fc(pooled(m.c(m.dw(y := m.a(x)) * m.up(torch.relu(m.down(y.mean((2, 3), keepdim=True)))).sigmoid()))),
        a=conv(3, 32), dw=conv(32, 32, groups=32), down=conv(32, 8, 1), up=conv(8, 32, 1), c=conv(32, 16), fc=nn.Linear(16, 5),
    )  # fmt: skip


def flattened():
    return made(lambda m, x: m.fc(torch.flatten(nn.functional.max_pool2d(m.a(x), 8), 1)), a=conv(3, 16), fc=nn.Linear(16 * 4, 5))


def normed():
    return made(
        lambda m, x: m.fc(m.ln(pooled(m.b(m.act(m.gn(m.a(x))))))),
        a=conv(3, 32), gn=nn.GroupNorm(4, 32), act=nn.PReLU(32), b=conv(32, 16), ln=nn.LayerNorm(16), fc=nn.Linear(16, 5),
    )  # fmt: skip


def names(traced):
    return [(group.name, group.channels, group.blocks) for group in traced.groups]


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (plain, [("a", 16, 1), ("b", 32, 1), ("c", 24, 1)]),
        (residual, [("stem", 16, 1), ("a", 32, 1)]),
        (joined, [("a", 16, 1), ("b", 24, 1), ("c", 8, 1)]),
        (grouped, [("a", 32, 4), ("b", 32, 4), ("c", 16, 1)]),
        (gated, [("a", 32, 1), ("down", 8, 1), ("c", 16, 1)]),
        (flattened, [("a", 16, 1)]),
        (normed, [("a", 32, 4), ("b", 16, 1)]),
    ],
)
def test_all_groups_but_the_outputs_are_found_and_priced(network, expected):
    net = network()
    before = copy.deepcopy(net.state_dict())
    traced = trace(net, resolution_px=PX)
    assert names(traced) == expected
    assert not traced.skipped
    assert traced.costs.of(traced.units) == (sum(p.numel() for p in net.parameters()), macs_of(net, PX))
    for group in traced.groups:
        smaller = copy.deepcopy(net)
        cut(smaller, [(group, (1,))])
        assert group.parameters == sum(p.numel() for p in net.parameters()) - sum(p.numel() for p in smaller.parameters())
        assert group.macs == macs_of(net, PX) - macs_of(smaller, PX)
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())


@pytest.mark.parametrize("network", [plain, residual, joined, grouped, gated, flattened])
def test_removing_channels_is_setting_them_to_zero_twice_over(network):
    net = network()
    traced = trace(net, resolution_px=PX)
    net = net.double()
    image = torch.randn(2, 3, PX, PX, dtype=torch.float64)
    zeroed, smaller = copy.deepcopy(net), copy.deepcopy(net)
    first = [(group, (0, group.units - 1)) for group in traced.groups]
    zero(zeroed, first)
    cut(smaller, first)
    assert torch.allclose(smaller(image), zeroed(image), rtol=0, atol=1e-12)
    # What is left is numbered anew: the next removal must hit the right channels too.
    second = [(group, (1, 2)) for group in left(first)]
    zero(zeroed, [(group, (2, 3)) for group in traced.groups])
    cut(smaller, second)
    assert torch.allclose(smaller(image), zeroed(image), rtol=0, atol=1e-12)
    units = [group.units for group in left(second)]
    assert units == [group.units - 4 for group in traced.groups]
    assert traced.costs.of(units) == (sum(p.numel() for p in smaller.parameters()), macs_of(smaller.float(), PX))


def test_shuffled_and_counted_channels_are_skipped_and_said():
    def shuffle(m, x):
        y = m.a(x)
        n, c, h, w = y.shape
        y = y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)
        y = m.b(y).view(n, 24, h, w)
        return m.fc(pooled(m.d(torch.relu(m.c(y)))))

    net = made(shuffle, a=conv(3, 16), b=conv(16, 24), c=conv(24, 32), d=conv(32, 16), fc=nn.Linear(16, 5))
    traced = trace(net, resolution_px=PX)
    assert names(traced) == [("c", 32, 1), ("d", 16, 1)]
    assert [each.group for each in traced.skipped] == ["a", "b"]
    assert all(each.why for each in traced.skipped)


def test_a_real_shuffling_network_keeps_what_can_be_proved():
    torchvision = pytest.importorskip("torchvision")
    torch.manual_seed(0)
    net = torchvision.models.shufflenet_v2_x0_5(weights=None, num_classes=10).eval()
    traced = trace(net, resolution_px=32)
    assert len(traced.groups) >= 10
    assert traced.skipped
    cut(net, [(group, tuple(range(group.units // 3))) for group in traced.groups])
    assert net(torch.zeros(1, 3, 32, 32)).shape == (1, 10)


def test_control_flow_on_values_is_refused_with_its_line():
    def branch(m, x):
        y = m.a(x)
        if y.sum() > 0:
            y = -y
        return m.fc(pooled(y))

    with pytest.raises(InputError) as caught:
        trace(made(branch, a=conv(3, 16), fc=nn.Linear(16, 5)), resolution_px=PX)
    error = caught.value
    assert (error.code, error.exit_code) == ("prune-trace", 2)
    assert "condition taken from a tensor" in error.what
    assert "test_pruning_groups.py:" in error.where
    assert error.where.endswith("in branch")
    assert "--prune" in error.fix


def test_a_network_without_gradients_is_refused():
    net = made(lambda m, x: m.fc(pooled(m.a(x))).detach(), a=conv(3, 16), fc=nn.Linear(16, 5))
    with pytest.raises(InputError, match="without gradients"):
        trace(net, resolution_px=PX)


def test_a_network_with_nothing_to_remove_is_refused():
    fixed = made(lambda m, x: m.fc(m.a(x).view(-1, 16, PX * PX).mean(2)), a=conv(3, 16), fc=nn.Linear(16, 5))
    for net in (fixed, made(lambda m, x: m.fc(pooled(x)), fc=nn.Linear(3, 5))):
        with pytest.raises(InputError) as caught:
            trace(net, resolution_px=PX)
        assert caught.value.code == "prune-trace"
        assert "none of the network's channels" in caught.value.what


def useless_second_half():
    """Channels 16.. of `b` reach nothing: their consumers are zero."""
    net = plain()
    net.c.weight[:, 16:] = 0
    return net


@pytest.mark.parametrize("score", [by_weight, lambda net, groups: by_taylor(net, groups, judge().batches, device="cpu")])
def test_channels_that_reach_nothing_matter_least(score):
    net = useless_second_half()
    net.norm.weight[16:] *= 0.01
    net.b.weight[16:] *= 0.01
    groups = trace(net, resolution_px=PX).groups
    scores = score(net, groups)
    assert [len(each) for each in scores] == [16, 32, 24]
    assert least_important(scores[1], 16) == tuple(range(16, 32))


def judge(labels=True):
    generator = torch.Generator().manual_seed(1)
    photos = tuple(torch.randn(8, 3, PX, PX, generator=generator) for _ in range(2))
    return Judge(photos, tuple(torch.randint(0, 5, (8,), generator=generator) for _ in photos) if labels else None)


def test_sensitivity_finds_the_group_that_does_nothing():
    net = useless_second_half()
    traced = trace(net, resolution_px=PX)
    notes = []
    for labels in (False, True):
        scores = by_taylor(net, traced.groups, judge(labels).batches, device="cpu")
        rises = loss_rises(net, traced.groups, scores, judge(labels), progress=lambda f, note: notes.append((f, note)))
        assert all(list(each) == sorted(each) and min(each) >= 0 for each in rises)
    a, b, c = loss_rises(net, traced.groups, scores, judge(labels=False), progress=lambda f, note: None)
    assert max(b[:2]) < 1e-9
    assert min(a[1], b[2], c[1]) > 1e-6
    assert any("b, 2 of 3" in note for _, note in notes)

"""Sizes of layers from the shapes of weights."""

import copy

import pytest
import torch
from torch import nn

from edgekit.build.structure import Structure, read_structure, reshape, write_structure


class Scaled(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1, channels, 1, 1))
        self.register_buffer("shift", torch.zeros(channels))

    def forward(self, x):
        return x * self.scale + self.shift[:, None, None]


LAYERS = [
    (lambda c: nn.Conv2d(c, c // 2, 3), lambda c: (1, c, 6, 6)),
    (lambda c: nn.Conv2d(c, 2 * c, 3, groups=c), lambda c: (1, c, 6, 6)),
    (lambda c: nn.Conv2d(c, c, 3, groups=c), lambda c: (1, c, 6, 6)),
    (lambda c: nn.Conv2d(c, 2 * c, 3, groups=4, bias=False), lambda c: (1, c, 6, 6)),
    (lambda c: nn.Conv1d(c, c, 3), lambda c: (1, c, 6)),
    (lambda c: nn.ConvTranspose2d(c, c // 2, 2), lambda c: (1, c, 6, 6)),
    (lambda c: nn.ConvTranspose2d(c, c, 2, groups=c), lambda c: (1, c, 6, 6)),
    (lambda c: nn.ConvTranspose2d(c, c, 2, groups=4), lambda c: (1, c, 6, 6)),
    (lambda c: nn.Linear(c, c // 2), lambda c: (1, c)),
    (lambda c: nn.BatchNorm2d(c), lambda c: (1, c, 6, 6)),
    (lambda c: nn.BatchNorm2d(c, affine=False), lambda c: (1, c, 6, 6)),
    (lambda c: nn.BatchNorm1d(c, track_running_stats=False), lambda c: (3, c, 6)),
    (lambda c: nn.InstanceNorm2d(c, affine=True), lambda c: (1, c, 6, 6)),
    (lambda c: nn.GroupNorm(4, c), lambda c: (1, c, 6, 6)),
    (lambda c: nn.LayerNorm(c), lambda c: (1, 5, c)),
    (lambda c: nn.PReLU(c), lambda c: (1, c, 6, 6)),
    (Scaled, lambda c: (1, c, 6, 6)),
]


@pytest.mark.parametrize(("make", "shape"), LAYERS)
def test_a_layer_takes_the_sizes_of_a_smaller_one(make, shape):
    torch.manual_seed(0)
    wide, narrow = nn.Sequential(make(32)).eval(), nn.Sequential(make(16)).eval()
    reshape(wide, narrow.state_dict())
    wide.load_state_dict(narrow.state_dict())
    x = torch.randn(shape(16))
    assert torch.equal(wide(x), narrow(x))
    assert repr(wide) == repr(narrow)


def test_weights_that_two_layers_share_stay_shared():
    def tied(channels):
        net = nn.Sequential(nn.Linear(channels, channels), nn.Linear(channels, channels))
        net[1].weight = net[0].weight
        return net

    wide, narrow = tied(16), tied(8)
    reshape(wide, narrow.state_dict())
    assert wide[0].weight is wide[1].weight
    assert wide[0].weight.shape == (8, 8)


def test_equal_sizes_leave_every_tensor_in_place():
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).requires_grad_(False)
    before = dict(net.named_parameters())
    reshape(net, copy.deepcopy(net.state_dict()))
    assert all(before[name] is parameter for name, parameter in net.named_parameters())


def test_gradients_stay_off_where_they_were_off():
    net = nn.Sequential(nn.Linear(8, 8)).requires_grad_(False)
    reshape(net, nn.Sequential(nn.Linear(4, 8)).state_dict())
    assert not net[0].weight.requires_grad
    assert (net[0].in_features, net[0].out_features) == (4, 8)


def test_structure_is_read_as_written(tmp_path):
    assert read_structure(tmp_path) == Structure()
    write_structure(tmp_path, Structure(("a.b", "c"), pruned=True))
    assert read_structure(tmp_path) == Structure(("a.b", "c"), pruned=True)

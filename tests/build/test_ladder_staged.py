"""Networks with exits, and where they can be cut."""

import pytest
import torch
import torchvision
from ladder_toys import PLACES, Residual, images, program_of, staged
from torch import nn

from edgekit.build.ladder.places import by_time, candidates, check_places
from edgekit.build.ladder.staged import ExitHead, Staged
from edgekit.spec.errors import InputError, UnknownName

EXAMPLE = torch.zeros(1, 3, 32, 32)


class Skips(nn.Module):
    """The first features are read again at the end."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 1, 1), nn.Conv2d(4, 4, 3, 1, 1)
        self.twice = nn.Conv2d(4, 4, 1)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))

    def forward(self, x):
        early = self.first(x)
        late = self.third(self.second(early)) + early
        return self.head(self.twice(self.twice(late)))


def test_answers_of_all_exits_come_first_and_then_the_features():
    network = staged()
    x = images(3)
    first, second, last, *features = network(x)
    assert [tuple(each.shape) for each in (first, second, last, *features)] == [(3, 7)] * 3 + [(3, 16, 8, 8), (3, 24, 8, 8)]
    assert torch.equal(last, network.network(x))
    assert torch.equal(first, network.heads[0](features[0]))
    assert torch.equal(second, network.heads[1](features[1]))


def test_the_network_inside_is_shared_and_stays_free_of_hooks():
    inner = Residual()
    network = Staged(inner, {"blocks.1": ExitHead(16, 7)})
    network(images(1))
    assert network.network is inner
    assert all(not module._forward_hooks for module in inner.modules())


def test_an_exported_program_gives_the_same():
    network, x = staged(), images(1)
    found = program_of(network).module()(x)
    assert len(found) == 5
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(found, network(x), strict=True))


def test_features_before_an_activation_in_place_are_the_same_in_both_forms():
    torch.manual_seed(0)
    network = Staged(torchvision.models.resnet18(weights=None, num_classes=3), {"bn1": ExitHead(64, 3)}).eval()
    x = images(1)
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(program_of(network).module()(x), network(x), strict=True))


def test_gradients_reach_a_head_and_no_farther_when_the_network_is_frozen():
    network = staged()
    network.network.requires_grad_(False)
    network(images(2))[0].sum().backward()
    assert network.heads[0].linear.weight.grad is not None
    assert all(parameter.grad is None for parameter in network.network.parameters())


def test_an_exit_behind_a_module_that_does_not_exist():
    with pytest.raises(UnknownName, match=r"blocks\.9"):
        Staged(Residual(), {"blocks.9": ExitHead(16, 7)})


def test_places_are_whole_blocks_and_layers_with_their_activation():
    found = {place.name: place.shape for place in candidates(Residual(), EXAMPLE)}
    inside = [f"blocks.{i}.{part}" for i in (1, 3) for part in ("expand", "depth")]
    outside = ["stem", "blocks.0", "blocks.1", "blocks.2", "blocks.3", "blocks", "head.1"]
    # In the order they run, of modules with one output the outermost.
    assert [name for name in found if name not in inside] == outside
    assert set(found) == {*inside, *outside}
    assert found["blocks.1"] == (1, 16, 8, 8)


def test_named_places_come_in_the_order_they_run():
    assert [place.name for place in check_places(Residual(), PLACES[::-1], EXAMPLE)] == list(PLACES)
    assert [place.channels for place in check_places(Residual(), PLACES, EXAMPLE)] == [16, 24]


def test_a_place_that_does_not_exist_names_the_nearest_that_can_be_cut():
    with pytest.raises(UnknownName) as caught:
        check_places(Residual(), ("blocs.3",), EXAMPLE)
    assert "blocks.3" in caught.value.fix


@pytest.mark.parametrize(
    ("network", "place", "crosses"),
    [
        pytest.param(Residual(), "blocks.2.depth", "blocks.1", id="inside-a-residual-block"),
        pytest.param(Residual(), "blocks.0.project", "stem", id="before-the-addition"),
        pytest.param(Skips(), "second", "first", id="a-long-skip"),
    ],
)
def test_a_skip_connection_across_the_cut_is_named(network, place, crosses):
    with pytest.raises(InputError) as caught:
        check_places(network, (place,), EXAMPLE)
    assert caught.value.code == "cut-skip"
    assert crosses in caught.value.what


@pytest.mark.parametrize("place", ["head.2", "head.3", "twice"])
def test_a_module_without_one_map_of_features(place):
    network = Skips() if place == "twice" else Residual()
    with pytest.raises(InputError) as caught:
        check_places(network, (place,), EXAMPLE)
    assert caught.value.code == "cut-features"


def test_two_modules_with_the_same_features():
    with pytest.raises(InputError) as caught:
        check_places(Residual(), ("blocks", "blocks.4"), EXAMPLE)
    assert caught.value.code == "cut-twice"


def test_an_image_that_is_read_again_crosses_every_cut():
    class Again(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 3, 3, 1, 1), nn.Conv2d(3, 3, 3, 1, 1)

        def forward(self, x):
            return (self.second(self.first(x)) + x).mean((2, 3))

    assert candidates(Again(), EXAMPLE) == ()
    with pytest.raises(InputError, match="the image"):
        check_places(Again(), ("first",), EXAMPLE)


@pytest.mark.parametrize(
    ("shares", "picked"),
    [
        ((0.1, 0.3, 0.42, 0.6, 0.8), (1, 3)),
        ((0.34, 0.37, 0.9), (0, 2)),
        ((0.8, 0.9), (0, 1)),
        ((0.01, 0.02, 0.03), (1, 2)),
    ],
)
def test_places_nearest_to_shares_of_the_time(shares, picked):
    assert by_time(shares) == picked


def test_too_few_places():
    with pytest.raises(ValueError, match="2 places"):
        by_time((0.5,))

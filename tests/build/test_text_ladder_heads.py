"""Heads behind layers of a network that reads text: where, how large, how they are kept, and what they leave as it was."""

import dataclasses

import pytest
import torch
from text_toys import BERT

from edgekit.build.ladder.exit_checkpoint import exits_in
from edgekit.build.text.config import CONFIGS
from edgekit.build.text.exit_checkpoint import read_text_exits, write_text_exits
from edgekit.build.text.exit_places import exit_layers
from edgekit.build.text.exits import MOST_GROWTH, StagedText, head_width, new_text_exits
from edgekit.build.text.network import TextNetwork
from edgekit.spec.errors import InputError

CONFIG = dataclasses.replace(BERT, layers=3)


def network(config=CONFIG, *, outputs=5, seed=0):
    torch.manual_seed(seed)
    return TextNetwork(config, outputs).eval()


def ids_of(count=4):
    ids = torch.randint(1, 200, (count, 9), generator=torch.Generator().manual_seed(1))
    ids[0, 5:] = -1
    return ids


@pytest.mark.parametrize(
    ("layers", "after", "found"),
    [
        (6, (), (2, 4)),
        (12, (), (4, 8)),
        (24, (), (8, 16)),
        (3, (), (1, 2)),
        (2, (), (1,)),
        (6, ("4", "1", "4"), (1, 4)),
    ],
)
def test_places(layers, after, found):
    assert exit_layers(layers, after) == found


@pytest.mark.parametrize("after", [("6",), ("0",), ("2", "7"), ("-1",), ("blocks.3",), ("²",), ("",)])
def test_a_layer_that_is_not_there(after):
    with pytest.raises(InputError) as caught:
        exit_layers(6, after)
    assert (caught.value.code, caught.value.where) == ("exit-layer", "--exits-after")
    assert "1,2,3,4,5" in caught.value.fix
    assert repr(after[-1]).strip("'") in caught.value.what


def test_a_network_of_one_layer_has_no_place():
    with pytest.raises(InputError) as caught:
        exit_layers(1, ())
    assert caught.value.code == "exit-layer"


def test_a_head_is_as_wide_as_its_network_unless_the_file_grew_too_much():
    minilm, parameters = CONFIGS["minilm_l6"], 22_700_000
    assert head_width(minilm.hidden, 77, 2, parameters=parameters) == minilm.hidden
    for hidden, classes, exits, size in ((384, 77, 6, parameters), (64, 3, 1, 110_000), (64, 5, 2, 50_000)):
        width = head_width(hidden, classes, exits, parameters=size)
        assert 0 < width < hidden
        assert exits * (hidden * width + width * classes) <= MOST_GROWTH * size
    assert head_width(64, 5, 2, parameters=1000) == 0


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_the_network_answers_as_before_and_heads_read_their_own_layer(pooling):
    config = dataclasses.replace(CONFIG, pooling=pooling, pooler="tanh" if pooling == "cls" else "")
    module, ids = network(config), ids_of()
    staged = StagedText(module, new_text_exits(module, (), seed=0), joint=True).eval()
    before = staged(ids)
    assert before.shape == (4, 3, 5)
    assert torch.equal(before[:, -1], module(ids))
    with torch.no_grad():
        module.layers[1].down.weight.mul_(2)
    after = staged(ids)
    assert torch.equal(after[:, 0], before[:, 0])
    assert not torch.allclose(after[:, 1], before[:, 1])
    longer = torch.nn.functional.pad(ids, (0, 3), value=-1)
    torch.testing.assert_close(staged(longer), after, rtol=1e-4, atol=1e-5)


def test_heads_come_from_the_seed_alone():
    module = network()
    one = new_text_exits(module, ("2", "1"), seed=3)
    state = torch.get_rng_state()
    two = new_text_exits(module, ("1", "2"), seed=3)
    assert list(one) == ["1", "2"]
    assert torch.equal(torch.get_rng_state(), state)
    other = new_text_exits(module, ("1", "2"), seed=4)
    assert torch.equal(one["1"].linear.weight, two["1"].linear.weight)
    assert not torch.equal(one["1"].linear.weight, other["1"].linear.weight)


@pytest.mark.parametrize(("hidden", "classes", "bare"), [(64, 5, False), (8, 40, True)])
def test_what_is_written_is_read(tmp_path, hidden, classes, bare):
    module = network(dataclasses.replace(CONFIG, hidden=hidden, intermediate=hidden), outputs=classes)
    heads = new_text_exits(module, (), seed=0)
    assert (heads["1"].dense is None) is bare
    write_text_exits(tmp_path, heads)
    found = read_text_exits(tmp_path)
    assert list(found) == list(exits_in(tmp_path)) == ["1", "2"]
    state = torch.randn(3, hidden)
    for place, head in heads.items():
        assert torch.equal(found[place](state), head(state))
    assert read_text_exits(tmp_path / "nothing") == {}

"""A trained network with another number of classes."""

import pytest
import torch
from fit_chain import checkpoint_in, network_in

from edgekit.build.checkpoint import read_checkpoint
from edgekit.build.new_head import with_head
from edgekit.build.structure import Structure, write_structure
from edgekit.spec.errors import InputError


def test_a_head_is_replaced_and_nothing_else(tmp_path):
    for factory, names in (("tiny", ("9.weight", "9.bias")), ("convolving", ("2.weight", "2.bias"))):
        network = network_in(tmp_path, factory)
        source = checkpoint_in(tmp_path / factory, network, classes=6)
        before = read_checkpoint(source.path, network).state_dict()
        module, replaced = with_head(network, source.path, 4)
        assert set(replaced) == set(names)
        assert module(torch.zeros(1, 3, 32, 32)).shape == (1, 4)
        assert not module.training
        after = module.state_dict()
        assert all(torch.equal(after[key], before[key]) for key in before if key not in names)
        assert with_head(network, source.path, 6)[1] == ()


def test_a_pruned_network_gets_a_new_head(tmp_path):
    network = network_in(tmp_path)
    source = checkpoint_in(tmp_path / "start", network)
    state = torch.load(source.path / "weights.pt")
    keep = {"3.weight": state["3.weight"][:11], "9.weight": state["9.weight"][:, :11]}
    keep |= {key: value[:11] for key, value in state.items() if key.startswith("4.") and value.dim()}
    torch.save({**state, **keep}, source.path / "weights.pt")
    write_structure(source.path, Structure(pruned=True))
    same, replaced = with_head(network, source.path, 3)
    assert replaced == ()
    other, replaced = with_head(network, source.path, 5)
    assert set(replaced) == {"9.weight", "9.bias"}
    assert other(torch.zeros(1, 3, 32, 32)).shape == (1, 5)
    assert other[9].weight.shape == (5, 11)
    assert torch.equal(other[3].weight, same[3].weight)


@pytest.mark.parametrize(("factory", "what"), [("fixed", "makes 3 outputs whatever"), ("greedy", "more than the classifier")])
def test_networks_that_cannot_have_other_classes_are_refused(tmp_path, factory, what):
    network = network_in(tmp_path, factory)
    source = checkpoint_in(tmp_path / "start", network)
    with pytest.raises(InputError, match=what) as caught:
        with_head(network, source.path, 5)
    assert caught.value.code == "classes"
    assert "`classes`" in caught.value.fix

"""The networks of the catalog: 40 % of the parameters go, channels stay multiples of 8, and everything after still works."""

import pytest
import torch
from small_stages import named

from edgekit.build.checkpoint import read_checkpoint, write_checkpoint
from edgekit.build.construct import make_network
from edgekit.build.pruning.gradual import Course, prune
from edgekit.build.pruning.sensitivity import Judge
from edgekit.build.structure import Structure
from edgekit.build.training.size import macs_of

PX = 64
NAMES = (
    "efficientnet_lite0",
    "mobilenet_v3_small",
    pytest.param("mobilenet_v2", marks=pytest.mark.slow),
    pytest.param("resnet18", marks=pytest.mark.slow),
)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Layers this small only wait for each other's threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=NAMES)
def pruned(request):
    """(network, facts, pruned module, report)."""
    torch.manual_seed(0)
    network, facts = named(request.param, classes=10, resolution_px=PX)
    module = make_network(network)
    judge = Judge((torch.randn(2, 3, PX, PX, generator=torch.Generator().manual_seed(0)),), None)
    course = Course(0.4, "parameters", 8, 2, "l1", PX)
    before = sum(p.numel() for p in module.parameters()), macs_of(module, PX)
    report = prune(module, course, judge, progress=lambda fraction, note: None)
    assert (report.parameters_before, report.macs_before) == before
    return network, facts, module, report


def test_the_ratio_is_met_in_real_parameters(pruned):
    _, _, module, report = pruned
    left = sum(p.numel() for p in module.parameters())
    assert report.parameters_after == left
    assert 0.4 <= 1 - left / report.parameters_before < 0.415
    assert report.macs_after == macs_of(module, PX)
    assert 1 - report.macs_after / report.macs_before >= 0.2


def test_channels_are_multiples_of_eight_and_no_layer_is_starved(pruned):
    *_, report = pruned
    assert not report.skipped
    for group in report.groups:
        if group.channels_after < group.channels_before:
            assert group.channels_after % 8 == 0
            assert group.channels_after >= 0.1 * group.channels_before


def test_a_checkpoint_gives_the_same_bits_again(pruned, tmp_path):
    network, facts, module, _ = pruned
    write_checkpoint(tmp_path, module, facts, structure=Structure(pruned=True))
    again = read_checkpoint(tmp_path, network)
    x = torch.randn(2, 3, PX, PX, generator=torch.Generator().manual_seed(1))
    assert torch.equal(again(x), module(x))
    assert repr(again) == repr(module)


def test_it_exports(pruned):
    _, _, module, _ = pruned
    x = torch.randn(1, 3, PX, PX, generator=torch.Generator().manual_seed(2))
    program = torch.export.export(module, (x,), strict=False)
    assert torch.allclose(program.module()(x), module(x), atol=1e-5)

"""Several networks in one payload: one at several resolutions, and a real one in segments."""

import numpy as np
import pytest
import torch
from ladder_files import DTYPES, ENGINES, Files, check_cuts, tensor, worst
from ladder_toys import SIZE_PX, images, program_of, staged
from torch import nn

from edgekit import catalog
from edgekit.build.construct import make_network
from edgekit.build.data import sample_photos
from edgekit.build.graph import attribute
from edgekit.build.ladder.places import check_places
from edgekit.build.ladder.staged import ExitHead, Staged
from edgekit.build.origin import network_of
from edgekit.build.programs import graph_of
from edgekit.build.quantize import quantize
from edgekit.build.recipe import Recipe
from edgekit.build.tensors import batches
from edgekit.build.walk import linears
from edgekit.spec.manifest import Entry

SIZES_PX = {"small": SIZE_PX, "large": 64}


@pytest.fixture(scope="module")
def resolutions():
    """The network without exits at two sizes, weights rounded at the larger."""
    network = staged().network
    large = quantize(program_of(network, size_px=64), images(8, size_px=64).split(4))
    small = quantize(program_of(network), images(8).split(4), weights=large)
    return {"small": small, "large": large}


def test_resolutions_carry_the_same_integers(resolutions):
    small, large = (graph_of(each.folded) for each in resolutions.values())
    for a, b in zip(linears(small), linears(large), strict=True):
        first, second = (attribute(graph, n.args[1].args[0].target) for graph, n in ((small, a), (large, b)))
        assert first.dtype is torch.int8
        assert torch.equal(first, second)
    assert resolutions["small"].tensors != resolutions["large"].tensors


@pytest.mark.parametrize("engine", ENGINES)
def test_resolutions_in_one_payload(engine, resolutions, tmp_path):
    """Each answers as a payload of its own."""
    code, module = catalog.find_lowering(engine), catalog.find_engine(engine)
    lowered = code.lower_rungs(resolutions, activation_dtype=DTYPES[engine])
    for name, program in resolutions.items():
        own, piece = code.lower_integer(program, activation_dtype=DTYPES[engine]), lowered.pieces[name]
        sessions = []
        for label, content, like in (("own", own.payload, own), ("shared", lowered.files[piece.file], piece)):
            path = tmp_path / f"{name}-{label}{code.SUFFIX}"
            path.write_bytes(content)
            sessions.append(module.load(path, Entry(name, "", like.method, like.inputs, like.outputs), threads=1))
        photos = torch.round(images(4, size_px=SIZES_PX[name], seed=5) / program.entry.scale + program.entry.zero_point)
        for photo in photos.clamp(-128, 127).to(torch.int8).numpy():
            x = tensor(photo, piece.inputs[0])
            assert np.array_equal(sessions[0].run(x)[0], sessions[1].run(x)[0])
        for session in sessions:
            session.close()


@pytest.mark.parametrize("engine", ["executorch", "litert"])
def test_resolutions_share_their_weights(engine):
    """A wide layer is most of the file, and it is there once."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 64, 3, 2), nn.ReLU(), nn.Conv2d(64, 512, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    ).eval()
    large = quantize(program_of(network, size_px=24), images(4, size_px=24).split(2))
    small = quantize(program_of(network, size_px=16), images(4, size_px=16).split(2), weights=large)
    code = catalog.find_lowering(engine)
    alone = len(code.lower_integer(large, activation_dtype="int8").payload)
    (both,) = code.lower_rungs({"small": small, "large": large}, activation_dtype="int8").files.values()
    assert alone > network[2].weight.numel()
    assert len(both) < 1.1 * alone


def test_other_weights_are_refused(resolutions):
    other = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(3600, 2)).eval()
    with pytest.raises(ValueError, match=r"weights \(4, 3, 3, 3\), not|zip"):
        quantize(program_of(other), images(4).split(2), weights=resolutions["large"])


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_real_network_in_segments(engine, real, tmp_path):
    """EfficientNet-Lite0 with its ImageNet weights, cut where its SPEC says; the exits are random."""
    program, pixels = real
    files = Files(engine, tmp_path, program=program)
    assert worst(files, pixels)[0] == 0
    grown = sum(map(len, files.rungs.files.values())) / files.uncut.stat().st_size - 1
    # Heads with a thousand classes each are a sixth of the network: they are not what is bounded here.
    heads = sum(p.numel() for place in (80, 112) for p in ExitHead(place, 1000).parameters())
    assert grown < 0.03 + heads / files.uncut.stat().st_size
    check_cuts(files)


@pytest.fixture(scope="module")
def real():
    """-> (the staged network, quantized on sample photos; (n, 3, h, w) int8 of others)."""
    source = catalog.find_model("efficientnet_lite0")
    network, facts = network_of(source, weights=None, classes=None, seed=0, resolution_px=None)
    module = make_network(network)
    example = torch.zeros(1, 3, facts.resolution_px, facts.resolution_px)
    torch.manual_seed(0)
    places = check_places(module, source.spec.exits_after, example)
    net = Staged(module, {place.name: ExitHead(place.channels, facts.classes) for place in places}).eval()
    program = torch.export.export(net, (example,), strict=False)
    found = quantize(program, batches(sample_photos("calibration", 8), facts), recipe=Recipe(rounding=False))
    judged = torch.cat(list(batches(sample_photos("judging", 6), facts)))
    steps = torch.round(judged / found.entry.scale + found.entry.zero_point)
    return found, steps.clamp(-128, 127).to(torch.int8).numpy()

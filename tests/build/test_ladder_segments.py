"""Integer segments of a staged network: on each engine their chain is the uncut network, and nothing converts at a cut."""

import itertools

import numpy as np
import pytest
import torch
from ladder_files import DTYPES, ENGINES, Files, chain, check_cuts, in_steps, integers, tensor, worst
from ladder_toys import PLACES, RUNGS, images, program_of, quantized, staged

from edgekit.build.equalise import equalise
from edgekit.build.forms import integer_forms
from edgekit.build.gates import check_layers
from edgekit.build.graph import fold_batch_norm
from edgekit.build.integer import QUANTIZE
from edgekit.build.ladder.segments import exits_of, segments, whole
from edgekit.build.programs import graph_of
from edgekit.build.recipe import PLAIN, Recipe
from edgekit.build.walk import linears
from edgekit.runtime.verify import steps_of

IMAGES = 64
EQUALISED = Recipe(equalise=True)
FLOAT = Recipe(float_layers=("conv2d_10",))


@pytest.fixture(scope="module", params=ENGINES)
def files(request, tmp_path_factory):
    return Files(request.param, tmp_path_factory.mktemp(request.param), program=quantized())


def test_the_chain_is_the_uncut_network(files):
    off, answers = worst(files, integers())
    assert off == 0
    assert answers > IMAGES / 2


def test_exits_answer_as_the_simulation_does(files):
    """The first segment holds the first exit, not another one."""
    program = quantized()
    _, *parts = files.load()
    module = program.folded.module(check_guards=False)
    for photo in integers()[:8]:
        logits = chain(parts, tensor(photo, files.entry.inputs[0]))
        with torch.no_grad():
            wanted = module(in_steps(program, photo[None]))[:3]
        for found, real, edge in zip(logits, wanted, program.exits[:3], strict=True):
            steps = torch.round(real / edge.scale).numpy() + edge.zero_point
            # Kernels round halves in their own way, each layer a little.
            assert np.abs(steps_of(found) - steps).max() <= 2
    for session in parts:
        session.close()


def test_features_leave_and_enter_with_one_scale(files):
    pieces = list(files.rungs.pieces.values())
    for before, after in itertools.pairwise(pieces):
        (features,) = before.outputs[1:]
        (entry,) = after.inputs
        assert features.dtype == DTYPES[files.engine]
        assert (features.dtype, features.shape, features.layout) == (entry.dtype, entry.shape, entry.layout)
        assert (features.scale, features.zero_point) == (entry.scale, entry.zero_point)
    assert len(pieces[-1].outputs) == 1


def test_one_file_where_the_format_holds_several_pieces(files):
    assert len(files.rungs.files) == (len(RUNGS) if files.engine == "onnx" else 1)


def test_weights_are_stored_once(files):
    """Beside the exits, a file grows by the frame of a graph: two more of them."""
    sizes = [len(content) for content in files.rungs.files.values()]
    heads = sum(p.numel() for p in staged().heads.parameters())
    channels = 2 * (8 + 7)
    frames = {"executorch": 6000, "litert": 9000, "onnx": 4000}[files.engine]
    assert sum(sizes) - files.uncut.stat().st_size < heads + 16 * channels + 2 * frames


def test_nothing_converts_at_a_cut(files):
    check_cuts(files)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("recipe", [PLAIN, EQUALISED, FLOAT], ids=["plain", "equalised", "float-layer"])
def test_every_recipe_can_be_cut(engine, recipe, tmp_path):
    files = Files(engine, tmp_path, program=quantized(recipe=recipe))
    assert worst(files, integers(recipe)[:16])[0] == 0


def test_segments_share_the_layers_of_the_whole():
    program = quantized()
    parts = segments(program)
    assert exits_of(program) == len(parts) == len(RUNGS)
    counts = [len(linears(part.folded.graph_module)) for part in parts]
    assert sum(counts) == len(linears(program.folded.graph_module))
    assert len(linears(whole(program).folded.graph_module)) == sum(counts) - 2 * len(PLACES)
    for part in parts:
        check_layers(part.folded)


def test_a_float_layer_is_known_again_in_its_segment():
    parts = segments(quantized(recipe=FLOAT))
    named = [part.float_layers for part in parts]
    assert sorted(map(len, named)) == [0, 0, 1]
    for part in parts:
        check_layers(part.folded, allowed=part.float_layers)


def test_a_program_without_exits_is_its_own_whole():
    program = whole(quantized())
    assert exits_of(program) == 1
    assert whole(program) is program
    assert len(segments(program)) == 1


def test_equalising_reaches_through_the_cuts():
    """The stream that crosses a cut is scaled as in the uncut network: all who read it are in the graph."""
    graph = graph_of(program_of(staged()))
    fold_batch_norm(graph)
    integer_forms(graph)
    x = images(1, seed=7)
    with torch.no_grad():
        before = graph(x)
        equalise(graph, images(8))
        after = graph(x)
    assert all(torch.allclose(a, b, atol=1e-3) for a, b in zip(before[:3], after[:3], strict=True))
    for old, new in zip(before[3:], after[3:], strict=True):
        factors = (new * old).sum((0, 2, 3)) / old.square().sum((0, 2, 3))
        assert torch.allclose(new, old * factors[:, None, None], atol=1e-3)
        assert factors.max() > 1.2 * factors.min()


def test_features_have_one_quantize_operator_for_all_who_read_them():
    graph = graph_of(quantized().folded)
    outputs = next(iter(graph.graph.find_nodes(op="output"))).args[0]
    for features in outputs[3:]:
        assert features.args[0].target is QUANTIZE
        readers = [user for dequantize in features.args[0].users for user in dequantize.users if user.op == "call_function"]
        assert len(readers) >= 2

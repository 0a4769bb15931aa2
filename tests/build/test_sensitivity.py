"""What single layers cost."""

import dataclasses

import pytest
import torch
from qat_toys import Fixed, Squeeze, calibration, exported, fitted, modern, pictures, relu6, top1
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

from edgekit.build.layer_names import module_of, modules_of
from edgekit.build.programs import load, run_each, save
from edgekit.build.quantize import calibrate, clearness_db, integer_graph
from edgekit.build.quantizer import CLAMPS, EdgeQuantizer
from edgekit.build.recipe import PLAIN, Recipe
from edgekit.build.sensitivity import guilty, sensitivities
from edgekit.build.sensitivity_rows import Sensitivity, read_sensitivities, write_sensitivities
from edgekit.build.walk import linears

pytestmark = pytest.mark.usefixtures("one_thread")


def five(lesson):
    """Five layers; the channels of each reach about as far."""
    torch.manual_seed(0)
    body = [nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU6()]
    for _ in range(3):
        body += [nn.Conv2d(8, 8, 3, 1, 1), nn.ReLU6()]
    return fitted(nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3)), lesson)


def spoil(network, index):
    """Layer `index` of `five` makes one channel that nobody reads, at the bound of its clamp, beside channels of a few steps."""
    layer, reader = network[2 * index], network[2 * index + 2]
    with torch.no_grad():
        layer.weight[1:] /= 300
        layer.bias[1:] /= 300
        reader.weight[:, 1:] *= 300
        layer.weight[0], layer.bias[0], reader.weight[:, 0] = 0, 6, 0
    return network


def measured(network, lesson, *, recipe=PLAIN, labels=True):
    data = lesson.tune
    return sensitivities(
        exported(network), calibration(lesson.fit), pictures(data), labels=data.labels if labels else None, recipe=recipe
    )


@pytest.mark.parametrize("index", [0, 1, 2])
def test_the_spoilt_layer_is_found(lesson, index):
    network = spoil(five(lesson), index)
    rows = measured(network, lesson, labels=False)
    assert len(rows) == 5
    worst, second, *_ = sorted(rows, key=lambda row: row.snr_db)
    assert worst.module == str(2 * index)
    assert worst.snr_db < second.snr_db - 10
    assert guilty(rows, n=1) == (worst,)


def by_hand(program, lesson, place):
    """Logits with one layer quantized, by editing a graph of its own."""
    graph, batches = integer_graph(program, calibration(lesson.fit), recipe=PLAIN)
    prepared = prepare_pt2e(graph, EdgeQuantizer(PLAIN))
    calibrate(prepared, batches)
    layer = linears(prepared)[place]
    users = list(layer.users)
    end = users[0] if len(users) == 1 and users[0].target in CLAMPS else layer
    kept = {layer.args[1], next(user for user in end.users if user.op == "call_module")}
    for node in list(prepared.graph.nodes):
        if node.op != "call_module":
            continue
        if node not in kept:
            node.replace_all_uses_with(node.args[0])
            prepared.graph.erase_node(node)
            continue
        observer = prepared.get_submodule(node.target)
        scale, zero = observer.calculate_qparams()
        with prepared.graph.inserting_before(node):
            if len(scale) > 1:
                prepared.register_buffer("by_hand", scale)
                prepared.register_buffer("by_hand_zero", zero.int())
                arguments = (
                    node.args[0],
                    prepared.graph.get_attr("by_hand"),
                    prepared.graph.get_attr("by_hand_zero"),
                    0,
                    -127,
                    127,
                )
                new = prepared.graph.call_function(torch.fake_quantize_per_channel_affine, arguments)
            else:
                arguments = (node.args[0], float(scale), int(zero), -128, 127)
                new = prepared.graph.call_function(torch.fake_quantize_per_tensor_affine, arguments)
        node.replace_all_uses_with(new)
        prepared.graph.erase_node(node)
    prepared.recompile()
    with torch.no_grad():
        return torch.cat([prepared(photo[None]) for photo in pictures(lesson.tune)])


@pytest.mark.parametrize("make", [modern, relu6])
def test_rows_are_those_of_a_graph_edited_by_hand(lesson, make):
    network = fitted(make(), lesson)
    program = exported(network)
    rows = measured(network, lesson)
    exact = run_each(program, pictures(lesson.tune))
    for place, row in enumerate(rows):
        noisy = by_hand(program, lesson, place)
        assert row.snr_db == pytest.approx(clearness_db(exact, noisy), abs=0.2)
        assert row.disagreement_pp == pytest.approx(100 * float((exact.argmax(1) != noisy.argmax(1)).double().mean()))
        assert row.drop_pp == pytest.approx(100 * (top1(exact, lesson.tune) - top1(noisy, lesson.tune)))


def test_the_program_and_its_clamps_in_place_stay_as_they_were(lesson):
    network = fitted(modern(), lesson)  # its activations work in place
    program, photos = exported(network), pictures(lesson.tune)
    before = run_each(program, photos)
    first = sensitivities(program, calibration(lesson.fit), photos, recipe=PLAIN)
    second = sensitivities(program, calibration(lesson.fit), photos, recipe=PLAIN)
    assert first == second
    assert torch.equal(before, run_each(program, photos))


def test_sizes_are_those_of_the_layers(lesson):
    rows = {row.module: row for row in measured(relu6(), lesson)}
    assert list(rows) == ["0", "3", "8"]
    assert (rows["0"].parameters, rows["0"].macs) == (3 * 8 * 9 + 8, 3 * 8 * 9 * 256)  # with the folded norm's bias
    assert (rows["3"].parameters, rows["3"].macs) == (8 * 16 * 9 + 16, 8 * 16 * 9 * 64)
    assert (rows["8"].parameters, rows["8"].macs) == (51, 48)


def test_float_layers_of_the_recipe_are_measured_too(lesson):
    network = fitted(relu6(), lesson)
    assert measured(network, lesson, recipe=dataclasses.replace(PLAIN, float_layers=("conv2d",))) == measured(network, lesson)


def test_a_network_for_one_photo(lesson):
    rows = measured(Fixed(), lesson, labels=False)
    assert [row.kind for row in rows] == ["conv", "linear"]
    assert {row.n for row in rows} == {18}
    assert {row.drop_pp for row in rows} == {None}


def test_progress_tells_the_work(lesson):
    told = []
    sensitivities(
        exported(relu6()),
        calibration(lesson.fit),
        pictures(lesson.tune),
        progress=lambda fraction, note: told.append((fraction, note)),
    )
    assert [fraction for fraction, _ in told] == sorted(fraction for fraction, _ in told)
    assert told[-1] == (1.0, "3 layers x 18 photos, photo 18")


def test_names_survive_a_saved_program(tmp_path):
    save(exported(modern()), tmp_path / "program.pt2")
    graph, _ = integer_graph(load(tmp_path / "program.pt2"), [], recipe=Recipe())
    assert modules_of(linears(graph)) == ("stem.0", "depth.0", "squeeze.less", "squeeze.more", "point", "head")
    assert [node.name for node in linears(graph)][:2] == ["conv2d", "conv2d_1"]


def test_what_has_no_module_keeps_its_name():
    class Nameless(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 3, 3, 3))
            self.squeeze = Squeeze(4)

        def forward(self, x):
            return nn.functional.avg_pool2d(self.squeeze(self.squeeze(nn.functional.conv2d(x, self.weight))), 2)

    graph, _ = integer_graph(exported(Nameless()), [], recipe=PLAIN)
    names = modules_of(linears(graph))
    assert names[0] == "conv2d"
    assert names[1:5] == ("squeeze.less", "squeeze.more", "squeeze.less (2)", "squeeze.more (2)")
    assert names[5] == linears(graph)[5].name == module_of(linears(graph)[5])


def row(layer, drop_pp, snr_db):
    return Sensitivity(layer, layer, "conv", 10, snr_db, 0.0, drop_pp, 1, 1)


def test_the_guilty_are_ranked_by_drop_then_by_noise():
    rows = (row("a", 0.0, 20.0), row("b", 1.0, 30.0), row("c", 0.0, 10.0), row("d", -1.0, 5.0), row("e", 1.0, 29.0))
    assert [r.layer for r in guilty(rows)] == ["e", "b", "c", "a", "d"]
    assert [r.layer for r in guilty(rows, n=2)] == ["e", "b"]
    assert [r.layer for r in guilty((row("a", None, 20.0), row("b", None, 10.0)))] == ["b", "a"]


def test_rows_round_trip(tmp_path):
    rows = (row("a", None, 20.0), row("b", 1.5, 30.0))
    write_sensitivities(tmp_path, rows)
    assert read_sensitivities(tmp_path) == rows

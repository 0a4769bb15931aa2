"""Training with the rounding of INT8 in place."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from qat_toys import Fixed, calibration, exported, fitted, modern, narrowed, pictures, relu6, top1
from torch import nn
from training_toys import plan

from edgekit import catalog
from edgekit.build.batched import Batched, batchable, expose_weights
from edgekit.build.fake_quantizers import ActivationRounding
from edgekit.build.graph import attribute
from edgekit.build.integer import DEQUANTIZE_CHANNELS
from edgekit.build.programs import graph_of, run_each
from edgekit.build.qat import converted, rounded, train_quantized
from edgekit.build.quantize import integer_graph, quantize
from edgekit.build.recipe import PLAIN, Recipe
from edgekit.build.training import checkpoints
from edgekit.build.training.plan import SoftLabels
from edgekit.build.training.trainer import train
from edgekit.build.walk import linears
from edgekit.runtime.verify import steps_of
from edgekit.spec.errors import InputError
from edgekit.spec.manifest import Entry

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("one_thread")]

TRAINING = plan(learning_rate=1e-3, micro_batch=6)


@pytest.fixture(scope="module")
def programs_of(lesson):
    """Name -> float program of a fitted network."""
    return {"relu6": exported(fitted(relu6(), lesson)), "modern": exported(fitted(modern(), lesson)), "fixed": exported(Fixed())}


def trained(program, lesson, *, recipe=PLAIN, training=TRAINING, learn_scales=False):
    """A rounded network after a training."""
    network = rounded(program, calibration(lesson.fit), recipe=recipe, learn_scales=learn_scales)
    training = training if network.module.whole else replace(training, micro_batch=1)
    train(network.module, replace(lesson, teacher=network.exact), training)
    return network


def within_a_step(network, quantized, photos):
    """Share of the logits of which the training's network and the converted one differ by a step at most."""
    with torch.no_grad():
        away = (network.module(photos) - run_each(quantized.folded, photos)).abs() / quantized.exit.scale
    return float((away < 1.01).double().mean())


@pytest.mark.parametrize("seed", [0, 1])
def test_it_wins_back_what_quantization_lost(lesson, seed):
    """PTQ sees nothing but zeros behind the first layer; neither equalisation nor rounding nor biases bring that back."""
    network = narrowed(fitted(relu6(), lesson))
    program, photos = exported(network), pictures(lesson.tune)
    assert top1(network(photos), lesson.tune) == 1
    for recipe in (PLAIN, Recipe(), Recipe(equalise=True)):
        assert top1(run_each(quantize(program, calibration(lesson.fit), recipe=recipe).folded, photos), lesson.tune) < 0.5
    quantized, told = train_quantized(
        program,
        calibration(lesson.fit),
        lesson=replace(lesson, soft=SoftLabels(2.0, 1.0)),
        training=plan(epochs=6, learning_rate=1e-3, seed=seed),
        recipe=PLAIN,
    )
    assert top1(run_each(quantized.folded, photos), lesson.tune) > 0.9
    assert told.history[-1].train_loss < told.history[0].train_loss / 2


@pytest.mark.parametrize("learn_scales", [False, True])
@pytest.mark.parametrize("name", ["relu6", "modern", "fixed"])
def test_the_converted_network_says_what_the_trained_one_says(programs_of, lesson, name, learn_scales):
    photos = pictures(lesson.fit)
    network = rounded(programs_of[name], calibration(lesson.fit), recipe=PLAIN, learn_scales=learn_scales)
    before = {key: value.clone() for key, value in network.module.named_parameters()}
    assert within_a_step(network, converted(network), photos) >= 0.99
    network = trained(programs_of[name], lesson, learn_scales=learn_scales)
    quantized = converted(network)
    assert within_a_step(network, quantized, photos) >= 0.99
    assert within_a_step(network, replace(quantized, folded=quantized.unfolded), photos) >= 0.99
    after = dict(network.module.named_parameters())
    assert all(not torch.equal(before[key], after[key]) for key in before if key.endswith("weight"))
    assert any(key.endswith("gain") for key in after) == learn_scales


def test_scales_of_activations_are_those_of_calibration(programs_of, lesson):
    plain = quantize(programs_of["modern"], calibration(lesson.fit), recipe=PLAIN)
    quantized = converted(trained(programs_of["modern"], lesson))
    scales = [[t.scale[0] for t in q.tensors if t.axis is None] for q in (plain, quantized)]
    assert scales[0] == pytest.approx(scales[1], rel=2e-3)  # addends are aligned by less
    assert quantized.entry == plain.entry


def test_learned_scales_move_but_those_of_input_and_constants(programs_of, lesson):
    network = trained(programs_of["modern"], lesson, learn_scales=True)
    fixed = [node for node in network.module.graph.graph.nodes if node.op in ("placeholder", "get_attr")]
    modules = dict(network.module.graph.named_modules(remove_duplicate=False))
    roundings = [modules[user.target] for node in fixed for user in node.users if user.op == "call_module"]
    assert all(m.gain is None for m in roundings if isinstance(m, ActivationRounding))
    gains = [value.item() for key, value in network.module.named_parameters() if key.endswith("gain")]
    assert len(gains) > 5
    assert max(abs(gain) for gain in gains) > 1e-3


def test_the_trained_network_is_not_changed_by_converting_it(programs_of, lesson):
    network = rounded(programs_of["relu6"], calibration(lesson.fit), recipe=PLAIN)
    before = {key: value.clone() for key, value in network.module.state_dict().items() if not key.endswith("scale")}
    one, two = converted(network), converted(network)
    assert all(torch.equal(value, network.module.state_dict()[key]) for key, value in before.items())
    photos = pictures(lesson.tune)
    assert torch.equal(run_each(one.folded, photos), run_each(two.folded, photos))


def test_float_layers_stay_float_and_are_trained(programs_of, lesson):
    recipe = replace(PLAIN, float_layers=("conv2d_1", "linear"))
    network = rounded(programs_of["modern"], calibration(lesson.fit), recipe=recipe)
    names = [key for key, _ in network.module.named_parameters()]
    before = [p.clone() for _, p in network.module.named_parameters()]
    train(network.module, replace(lesson, teacher=network.exact), TRAINING)
    changed = dict(
        zip(names, (not torch.equal(a, b) for a, b in zip(before, network.module.parameters(), strict=True)), strict=True)
    )
    assert all(changed.values())
    quantized = converted(network)
    floats = [n.name for n in linears(quantized.folded.graph_module) if n.args[1].target is not DEQUANTIZE_CHANNELS]
    assert tuple(floats) == quantized.float_layers
    assert len(floats) == 2
    assert within_a_step(network, quantized, pictures(lesson.fit)) >= 0.99


def test_equalised_graphs_are_trained_too(programs_of, lesson):
    network = trained(programs_of["modern"], lesson, recipe=replace(PLAIN, equalise=True))
    assert within_a_step(network, converted(network), pictures(lesson.fit)) >= 0.99


def test_without_labels_the_float_network_teaches_alone(programs_of, lesson):
    bare = replace(lesson, fit=lesson.fit.without_labels(), tune=lesson.tune.without_labels(), soft=SoftLabels(2.0, 1.0))
    _, told = train_quantized(programs_of["relu6"], calibration(lesson.fit), lesson=bare, training=TRAINING, recipe=PLAIN)
    assert told.history[-1].tune_top1 > 0.9
    with pytest.raises(InputError, match="no label"):
        train_quantized(
            programs_of["relu6"], calibration(lesson.fit), lesson=replace(bare, soft=SoftLabels(2.0, 0.5)), training=TRAINING
        )


def test_an_interrupt_changes_no_bit(programs_of, lesson, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints.Keeper, "due", lambda self: self.path is not None)
    arguments = (programs_of["relu6"], calibration(lesson.fit))
    options = {"lesson": lesson, "training": TRAINING, "recipe": PLAIN, "learn_scales": True}
    whole, _ = train_quantized(*arguments, **options)
    seen = []

    def interrupt(fraction, note):
        seen.append(note)
        if len(seen) == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_quantized(*arguments, **options, resume=tmp_path, progress=interrupt)
    again, _ = train_quantized(*arguments, **options, resume=tmp_path)
    assert again.tensors == whole.tensors
    one, two = (q.folded.module().state_dict() for q in (whole, again))
    assert all(torch.equal(one[key], two[key]) for key in one)


def test_a_graph_for_one_photo_runs_batches_one_by_one(programs_of):
    for name, expected in (("relu6", True), ("modern", True), ("fixed", False)):
        graph = graph_of(programs_of[name])
        photos = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
        assert batchable(graph, photos[:1]) == expected
        with torch.no_grad():
            found = Batched(graph, whole=expected)(photos)
        assert torch.allclose(found, run_each(programs_of[name], photos), atol=1e-4)


def test_a_graph_that_mixes_photos_is_no_batch():
    class Mixed(nn.Module):
        def forward(self, x):
            return (x - x.mean((0, 1, 2, 3))).mean((2, 3))

    graph = graph_of(exported(Mixed()))
    assert not batchable(graph, torch.zeros(1, 3, 32, 32))


def test_averages_constants_and_shared_weights(lesson):
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 3, 3, padding=1)

        def forward(self, x):
            x = nn.functional.avg_pool2d(nn.functional.hardswish(self.conv(self.conv(x).relu())), 2)
            return x.mean((2, 3))

    graph, _ = integer_graph(exported(Shared()), [], recipe=PLAIN)
    weight = next(n.args[1] for n in linears(graph) if n.meta["val"].shape[2] == 16)
    count = expose_weights(graph)
    names = {name for name, _ in graph.named_parameters()}
    assert weight.target not in names
    assert not any("three" in name for name in names)
    # Hard-swish takes a scaled copy for the second layer, so nothing is shared there.
    assert count == len(names) == 4
    network = trained(exported(Shared()), lesson)
    assert float(attribute(network.module.graph, weight.target).std()) == 0


def test_a_weight_used_twice_is_one_parameter(lesson):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 3, 3, padding=1)

        def forward(self, x):
            return self.conv(self.conv(x).relu()).mean((2, 3))

    network = trained(exported(Twice()), lesson)
    assert len(list(network.module.parameters())) == 2
    assert within_a_step(network, converted(network), pictures(lesson.fit)) >= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("name", ["relu6", "modern"])
def test_all_engines_run_what_was_trained(programs_of, lesson, tmp_path, name):
    network = trained(programs_of[name], lesson, learn_scales=True)
    quantized = converted(network)
    entry, end = quantized.entry, quantized.exit
    steps = (pictures(lesson.tune) / entry.scale).round().add(entry.zero_point).clamp(-128, 127)
    wanted = run_each(quantized.folded, (steps - entry.zero_point) * entry.scale) / end.scale + end.zero_point
    for engine in ("executorch", "onnx", "litert"):
        lowering = catalog.find_lowering(engine)
        lowered = lowering.lower_integer(quantized, activation_dtype="uint8" if engine == "onnx" else "int8")
        path = tmp_path / f"payload{lowering.SUFFIX}"
        path.write_bytes(lowered.payload)
        called = Entry("all", path.name, lowered.method, lowered.inputs, lowered.outputs)
        session = catalog.find_engine(engine).load(path, called, threads=1)
        spec = lowered.inputs[0]
        rows = []
        for photo in steps.numpy()[:, None]:
            x = photo.transpose(0, 2, 3, 1) if spec.layout == "NHWC" else photo
            x = x + 128 if spec.dtype == "uint8" else x
            rows.append(steps_of(session.run(np.ascontiguousarray(x.astype(spec.dtype)))[0]).reshape(-1))
        session.close()
        away = np.abs(np.stack(rows) - wanted.numpy())
        assert (away < 0.01).mean() > 0.97, engine
        assert away.max() < 1.01, engine

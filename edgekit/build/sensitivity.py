"""What each layer costs when it alone is quantized, in an otherwise float network.

Quantized are the layer's weights and its result, behind the clamp that engines fuse with it, with the scales that plain
quantization by the same recipe would take. Photos run through the float network once; for each layer only what comes after it
runs again, which is less than half on average. The inverse, one layer in float in an otherwise quantized network, is not
measured: there nothing could be shared.
"""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram
from torchao.quantization.pt2e.observer import ObserverBase
from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

from edgekit.build.batched import batchable
from edgekit.build.fake_quantizers import ActivationRounding, WeightRounding, replace_observers
from edgekit.build.graph import attribute
from edgekit.build.layer_names import modules_of
from edgekit.build.pipeline import Progress
from edgekit.build.programs import one_thread
from edgekit.build.quantize import calibrate, clearness_db, integer_graph
from edgekit.build.quantizer import CLAMPS, EdgeQuantizer
from edgekit.build.recipe import Recipe
from edgekit.build.sensitivity_rows import Sensitivity, guilty
from edgekit.build.walk import linears

__all__ = ["Run", "Trial", "after", "call", "guilty", "row_of", "sensitivities"]

aten = torch.ops.aten

AT_A_TIME = 4
"""Photos; all values of the float network are kept for them."""


def sensitivities(
    program: ExportedProgram,
    batches: Iterable[Tensor],
    photos: Tensor,
    *,
    labels: Sequence[int] | None = None,
    recipe: Recipe = Recipe(),  # noqa: B008 - frozen
    progress: Progress = lambda fraction, note: None,
) -> tuple[Sensitivity, ...]:
    """Each convolution and linear layer of a program, in the order they run; on one thread.

    Args:
        program: (1, 3, h, w) float32 -> (1, classes) float32.
        batches: calibration input, (n, 3, h, w) float32 each.
        photos: (n, 3, h, w) float32 to judge on.
        labels: class of each photo; None leaves the drop out.
        recipe: observer and equalisation; float layers are measured too.
        progress: told after each layer.
    """
    with one_thread(), torch.inference_mode():
        return _measured(program, batches, photos, labels, replace(recipe, float_layers=()), progress)


@dataclass(frozen=True, slots=True)
class Trial:
    """One layer to quantize.

    Attributes:
        layer: its node.
        weights: how its weights are rounded.
        end: the node whose result is rounded: the layer or the clamp behind it.
        result: how.
        rest: nodes that depend on the layer, itself included, in order.
    """

    layer: fx.Node
    weights: WeightRounding | None
    end: fx.Node
    result: ActivationRounding | None
    rest: tuple[fx.Node, ...]


def _measured(
    program: ExportedProgram,
    batches: Iterable[Tensor],
    photos: Tensor,
    labels: Sequence[int] | None,
    recipe: Recipe,
    progress: Progress,
) -> tuple[Sensitivity, ...]:
    graph, batches = integer_graph(program, batches, recipe=recipe)
    prepared = prepare_pt2e(copy.deepcopy(graph), EdgeQuantizer(recipe))
    calibrate(prepared, batches)
    replace_observers(prepared, learn_scales=False)
    trials = _trials(graph, prepared)
    size = AT_A_TIME if batchable(graph, program.example_inputs[0][0]) else 1
    exact: list[Tensor] = []
    found: list[list[Tensor]] = [[] for _ in trials]
    parts = photos.split(size)
    for i, part in enumerate(parts):
        run = Run(graph, part)
        exact.append(run.outputs())
        for j, (trial, into) in enumerate(zip(trials, found, strict=True)):
            into.append(run.outputs(trial))
            done = (i * len(trials) + j + 1) / (len(parts) * len(trials))
            progress(done, f"{len(trials)} layers x {len(photos)} photos, photo {min((i + 1) * size, len(photos))}")
    names = modules_of(trial.layer for trial in trials)
    wanted = torch.cat(exact)
    return tuple(
        row_of(graph, trial, name, wanted, torch.cat(outputs), labels)
        for trial, name, outputs in zip(trials, names, found, strict=True)
    )


class Run:
    """Some photos in the float network, and again from a layer on."""

    def __init__(self, graph: fx.GraphModule, photos: Tensor) -> None:
        """Run all of it and keep every value."""
        self.end = next(iter(graph.graph.find_nodes(op="output")))
        self.values: dict[fx.Node, Any] = {}
        for node in graph.graph.nodes:
            if node.op == "placeholder":
                self.values[node] = photos
            elif node.op == "get_attr":
                self.values[node] = attribute(graph, node.target)
            elif node.op == "call_function":
                self.values[node] = call(node, self.values)

    def outputs(self, trial: Trial | None = None) -> Tensor:
        """(n, classes) of the float network, or with one layer quantized."""
        values = self.values
        if trial is not None:
            values = dict(values)
            if trial.weights is not None:
                weight = trial.layer.args[1]
                values[weight] = trial.weights(values[weight])
                values[trial.layer] = call(trial.layer, values)
                values[weight] = self.values[weight]  # another layer may share it
            for node in trial.rest:
                if node is not trial.layer or trial.weights is None:
                    values[node] = call(node, values)
                if node is trial.end and trial.result is not None:
                    values[node] = trial.result(values[node])
        value = self.end.args[0]
        return values[value[0] if isinstance(value, tuple | list) else value]


def call(node: fx.Node, values: dict[fx.Node, Any]) -> Any:
    """One operator; what it would change in place stays as it is for those who read it later."""
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: values[n])
    if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable:
        args = (args[0].clone(), *args[1:])
    return node.target(*args, **kwargs)


def _trials(graph: fx.GraphModule, prepared: fx.GraphModule) -> tuple[Trial, ...]:
    modules = dict(prepared.named_modules(remove_duplicate=False))
    order = {node: i for i, node in enumerate(graph.graph.nodes)}
    trials = []
    for layer, twin in zip(linears(graph), linears(prepared), strict=True):
        weight = twin.args[1]
        weights = modules[weight.target] if weight.op == "call_module" else None
        end, end_twin = layer, twin
        if len(layer.users) == 1 and next(iter(layer.users)).target in CLAMPS:
            end, end_twin = next(iter(layer.users)), next(iter(twin.users))
        results = [modules[user.target] for user in end_twin.users if user.op == "call_module"]
        result = next((module for module in results if isinstance(module, ObserverBase)), None)
        trials.append(Trial(layer, weights, end, result, after(layer, order)))
    return tuple(trials)


def after(layer: fx.Node, order: dict[fx.Node, int]) -> tuple[fx.Node, ...]:
    """Nodes that a layer's value reaches, in the order of the graph."""
    found, waiting = {layer}, [layer]
    while waiting:
        for user in waiting.pop().users:
            if user.op == "call_function" and user not in found:
                found.add(user)
                waiting.append(user)
    return tuple(sorted(found, key=lambda node: order[node]))


def row_of(
    graph: fx.GraphModule, trial: Trial, module: str, exact: Tensor, noisy: Tensor, labels: Sequence[int] | None
) -> Sensitivity:
    """(n, classes) of the float network and with one layer quantized -> the row of that layer."""
    layer = trial.layer
    weight, *bias = (_constant(graph, operand) for operand in layer.args[1:3] if operand is not None)
    drop = None
    if labels is not None:
        truth = torch.tensor(labels)
        right = [float((logits.argmax(1) == truth).double().mean()) for logits in (exact, noisy)]
        drop = 100 * (right[0] - right[1])
    return Sensitivity(
        layer=layer.name,
        module=module,
        kind=_kind(layer, weight),
        n=len(exact),
        snr_db=clearness_db(exact, noisy),
        disagreement_pp=100 * float((exact.argmax(1) != noisy.argmax(1)).double().mean()),
        drop_pp=drop,
        parameters=weight.numel() + sum(values.numel() for values in bias),
        macs=layer.meta["val"][:1].numel() * weight[0].numel(),
    )


def _kind(layer: fx.Node, weight: Tensor) -> str:
    if layer.target is aten.linear.default:
        return "linear"
    groups = layer.args[6] if layer.target is aten.conv2d.default and len(layer.args) > 6 else 1
    return "depthwise" if groups > 1 and weight.shape[1] == 1 else "conv"


def _constant(graph: fx.GraphModule, node: fx.Node) -> Tensor:
    """Weights or biases; where a network computes them, of their shape."""
    return attribute(graph, node.target) if node.op == "get_attr" else node.meta["val"]

"""Training with the rounding of INT8 in place, on the very graph that `quantize` takes, converted the same way.

Activations are rounded with the scales of calibration, weights with those of their range at the moment; gradients pass through.
The float network is the teacher: what is to be won back is its answers. As the network learns to live with rounding to the
nearest step, nothing repairs weights or biases afterwards.

Source: Jacob et al., Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference, CVPR 2018,
section 3; with norms folded from the start, since a trained network's statistics need not be learned again.
"""

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch.export import ExportedProgram
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from edgekit.build.batched import Batched, batchable, expose_weights
from edgekit.build.fake_quantizers import replace_observers
from edgekit.build.pipeline import Progress
from edgekit.build.quantize import Quantized, calibrate, finish, integer_graph
from edgekit.build.quantizer import EdgeQuantizer
from edgekit.build.recipe import Recipe
from edgekit.build.training.lesson import Lesson, Trained
from edgekit.build.training.plan import SoftLabels, Training
from edgekit.build.training.trainer import train
from edgekit.build.walk import linears

__all__ = ["Rounded", "converted", "rounded", "train_quantized"]


@dataclass(frozen=True, slots=True)
class Rounded:
    """A network that rounds as it will on the device, and can be trained.

    Attributes:
        module: (n, 3, h, w) float32 -> (n, classes) float32, on the grid of the output.
        exact: the same network without rounding and with weights of its own.
        example: (1, 3, h, w) float32.
        float_layers: places of the layers that stay in float, among all layers.
    """

    module: Batched
    exact: Batched
    example: torch.Tensor
    float_layers: tuple[int, ...]


def train_quantized(
    program: ExportedProgram,
    batches: Iterable[torch.Tensor],
    *,
    lesson: Lesson,
    training: Training,
    recipe: Recipe = Recipe(),  # noqa: B008 - frozen
    learn_scales: bool = False,
    resume: Path | None = None,
    seen: Callable[[int], None] = lambda count: None,
    progress: Progress = lambda fraction, note: None,
) -> tuple[Quantized, Trained]:
    """Calibrate, train with rounding, convert.

    Args:
        program: (1, 3, h, w) float32 -> (1, classes) float32.
        batches: calibration input, (n, 3, h, w) float32 each.
        lesson: photos; without a teacher the float network is one. Feature maps are not aligned.
        training: how long and how fast. A graph that only takes one photo gets them one by one.
        recipe: observer, equalisation and float layers; weights are not rounded again, nor biases corrected, after training.
        learn_scales: whether scales of activations are trained too.
        resume: see `trainer.train`.
        seen: told the number of calibration photos after each batch.
        progress: told after each step of the training.

    Raises:
        InputError: the lesson cannot be taught, or the recipe names a layer that the network lacks.
        GoalError: the training diverged, the input or the output stays float, or a bias does not fit into int32.
    """
    network = rounded(program, batches, recipe=recipe, learn_scales=learn_scales, seen=seen)
    soft = replace(lesson.soft or SoftLabels(), features=0.0)
    lesson = replace(lesson, teacher=lesson.teacher or network.exact, soft=soft)
    if not network.module.whole:
        training = replace(training, micro_batch=1)
    trained = train(network.module, lesson, training, resume=resume, progress=progress)
    return converted(network), trained


def rounded(
    program: ExportedProgram,
    batches: Iterable[torch.Tensor],
    *,
    recipe: Recipe,
    learn_scales: bool = False,
    seen: Callable[[int], None] = lambda count: None,
) -> Rounded:
    """A float program -> a network that rounds, with scales from calibration; see `train_quantized`."""
    graph, batches = integer_graph(program, batches, recipe=recipe)
    prepared = prepare_pt2e(copy.deepcopy(graph), EdgeQuantizer(recipe))
    calibrate(prepared, batches, seen=seen)
    replace_observers(prepared, learn_scales=learn_scales)
    expose_weights(prepared)
    expose_weights(graph)
    graph.requires_grad_(False)
    example = program.example_inputs[0][0]
    whole = batchable(graph, example)
    places = tuple(i for i, node in enumerate(linears(graph)) if node.name in recipe.float_layers)
    return Rounded(Batched(prepared, whole=whole), Batched(graph, whole=whole), example, places)


def converted(network: Rounded) -> Quantized:
    """The integers of a network as it is now; it is not changed.

    Raises:
        GoalError: the input or the output stays float, or a bias does not fit into int32.
    """
    graph = copy.deepcopy(network.module.graph).requires_grad_(False)
    with torch.no_grad():
        graph(network.example)  # shows the weights to their rounding
    unfolded = convert_pt2e(copy.deepcopy(graph), fold_quantize=False)
    return finish(convert_pt2e(graph), unfolded, (network.example,), float_layers=network.float_layers)

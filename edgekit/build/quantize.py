"""Quantize once: a float program and photos -> one set of integers that all payloads carry."""

import copy
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import fx
from torch.export import ExportedProgram
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from edgekit.build.addends import align_addends
from edgekit.build.bias_correction import correct_biases
from edgekit.build.equalise import equalise
from edgekit.build.forms import integer_forms
from edgekit.build.graph import fold_batch_norm, rewrite_hard_activations
from edgekit.build.integer import Edge, canonical_biases, canonical_weights, drop_implied_clamps, edges
from edgekit.build.programs import graph_of, run_each
from edgekit.build.quantizer import BEST, EdgeQuantizer
from edgekit.build.recipe import Recipe
from edgekit.build.walk import linears
from edgekit.build.weight_rounding import carry_weights, round_weights

__all__ = ["Quantized", "TensorQuant", "calibrate", "clearness_db", "finish", "integer_graph", "quantize", "signal_to_noise_db"]

ROUNDING_PHOTOS = 32
"""More of them change the accuracy of EfficientNet-Lite0 by less than its noise."""

CORRECTION_PHOTOS = 64

SILENCE_DB = 120.0
"""Beyond what float32 resolves."""


@dataclass(frozen=True, slots=True)
class TensorQuant:
    """How one tensor is quantized.

    Attributes:
        name: node of the exported graph that makes it.
        dtype: `int8`.
        axis: channel axis of a weight; None for one scale a tensor.
        scale: one value, or one a channel.
        zero_point: one value, or one a channel.
    """

    name: str
    dtype: str
    axis: int | None
    scale: tuple[float, ...]
    zero_point: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Quantized:
    """The same integers twice: with folded int8 weights (ExecuTorch, ONNX) and with weights still to fold (LiteRT).

    Attributes:
        folded: float (1, 3, h, w) -> float (1, classes), weights int8.
        unfolded: the same with float weights behind a quantize operator.
        entry: quantization of the input.
        exits: quantization of every output: (1, classes) logits; of a staged network those of each exit, then of its features.
        tensors: every quantized tensor.
        float_layers: nodes of `folded` that the recipe keeps in float.
    """

    folded: ExportedProgram
    unfolded: ExportedProgram
    entry: Edge
    exits: tuple[Edge, ...]
    tensors: tuple[TensorQuant, ...]
    float_layers: tuple[str, ...] = ()

    @property
    def exit(self) -> Edge:
        """Of the first output."""
        return self.exits[0]


def quantize(
    program: ExportedProgram,
    batches: Iterable[torch.Tensor],
    *,
    recipe: Recipe = Recipe(),  # noqa: B008 - frozen
    weights: Quantized | None = None,
    seen: Callable[[int], None] = lambda count: None,
) -> Quantized:
    """Static INT8 of a float program.

    Args:
        program: (1, 3, h, w) float32 -> (1, classes) float32, batch dynamic or not; a staged one gives features as well.
        batches: calibration input, (n, 3, h, w) float32 each.
        recipe: observer, repairs, float layers.
        weights: the same network at another resolution, whose int8 weights are taken, so that a payload holds them once; None
            rounds them on these photos.
        seen: told the number of photos after each batch.

    Raises:
        GoalError: the input or the output stays float, or a bias does not fit into int32.
    """
    graph, batches = integer_graph(program, batches, recipe=recipe)
    prepared = prepare_pt2e(copy.deepcopy(graph), EdgeQuantizer(recipe))
    photos = calibrate(prepared, batches, seen=seen)
    unfolded = convert_pt2e(copy.deepcopy(prepared), fold_quantize=False)
    folded = convert_pt2e(prepared)
    if weights is not None:
        carry_weights(graph_of(weights.folded), folded, (unfolded,))
    elif recipe.rounding:
        round_weights(graph, folded, (unfolded,), _spread(photos, ROUNDING_PHOTOS))
    if recipe.bias_correction:
        correct_biases(graph, folded, _spread(photos, CORRECTION_PHOTOS))
    return finish(folded, unfolded, _example(program), float_layers=_places(graph, recipe.float_layers))


def integer_graph(
    program: ExportedProgram, batches: Iterable[torch.Tensor], *, recipe: Recipe
) -> tuple[fx.GraphModule, Iterable[torch.Tensor]]:
    """The float graph that is quantized, and the batches as if none had been looked at."""
    graph = graph_of(program)
    fold_batch_norm(graph)
    integer_forms(graph)
    if recipe.equalise:
        first, batches = _peek(batches, ROUNDING_PHOTOS)
        equalise(graph, first)
    rewrite_hard_activations(graph)
    return graph, batches


def finish(
    folded: fx.GraphModule, unfolded: fx.GraphModule, example: tuple[torch.Tensor, ...], *, float_layers: Sequence[int] = ()
) -> Quantized:
    """Both converted forms -> one set of integers; changes them in place.

    Args:
        folded: with int8 weights.
        unfolded: with float weights behind a quantize operator.
        example: input.
        float_layers: places of the layers that stayed float, among all layers.

    Raises:
        GoalError: the input or the output stays float, or a bias does not fit into int32.
    """
    for form in (folded, unfolded):
        align_addends(form)
    canonical_weights(unfolded)
    canonical_biases(folded, (unfolded,))
    drop_implied_clamps(folded)
    drop_implied_clamps(unfolded)
    entry, exits = edges(folded)
    exported = torch.export.export(folded, example, strict=False)
    return Quantized(
        folded=exported,
        unfolded=torch.export.export(unfolded, example, strict=False),
        entry=entry,
        exits=exits,
        tensors=_tensors(folded),
        float_layers=tuple(node.name for i, node in enumerate(linears(exported.graph_module)) if i in float_layers),
    )


def signal_to_noise_db(program: ExportedProgram, quantized: Quantized, *, photos: torch.Tensor) -> float:
    """How far the logits on (n, 3, h, w) stand above what quantization adds to them, see `clearness_db`."""
    return clearness_db(run_each(program, photos), run_each(quantized.folded, photos))


def clearness_db(exact: torch.Tensor, noisy: torch.Tensor) -> float:
    """(n, classes) logits of the float and of a quantized network -> signal-to-noise ratio in dB: mean over the photos.

    10 log10(sum y^2 / sum (y - q)^2) a photo, at most `SILENCE_DB`, over the `BEST` largest logits: the others may saturate. A
    measure that needs no labels and tells recipes apart long before answers change.
    """
    exact, best = exact.double().sort(1, descending=True)
    exact, best = exact[:, :BEST], best[:, :BEST]
    power = exact.square().sum(1)
    noise = (noisy.double().gather(1, best) - exact).square().sum(1)
    least = power * 10 ** (-SILENCE_DB / 10) + torch.finfo(torch.float64).tiny
    return float(10 * (power / noise.maximum(least)).clamp_min(torch.finfo(torch.float64).tiny).log10().mean())


def _places(graph: fx.GraphModule, names: Sequence[str]) -> tuple[int, ...]:
    """Export numbers nodes anew, so layers are known by their place among all layers."""
    return tuple(i for i, node in enumerate(linears(graph)) if node.name in names)


def _spread(photos: Sequence[torch.Tensor], limit: int) -> torch.Tensor:
    """At most `limit` of (1, 3, h, w) -> (n, 3, h, w), evenly over all of them."""
    n = min(limit, len(photos))
    return torch.cat([photos[i * len(photos) // n] for i in range(n)])


def _peek(batches: Iterable[torch.Tensor], count: int) -> tuple[torch.Tensor, Iterable[torch.Tensor]]:
    """The first `count` photos, or all if there are fewer, and the batches as if none had been taken."""
    rest, taken, seen = iter(batches), [], 0
    for batch in rest:
        taken.append(batch)
        seen += len(batch)
        if seen >= count:
            break
    first = torch.cat(taken)[:count] if taken else torch.empty(0)
    return first, itertools.chain(taken, rest)


def calibrate(
    prepared: fx.GraphModule, batches: Iterable[torch.Tensor], *, seen: Callable[[int], None] = lambda count: None
) -> list[torch.Tensor]:
    """Show all batches to the observers and keep some photos, evenly spread, so that memory does not grow with their number."""
    kept: list[torch.Tensor] = []
    count, stride = 0, 1
    with torch.no_grad():
        for batch in batches:
            prepared(batch)
            for photo in batch.split(1):
                if count % stride == 0:
                    kept.append(photo)
                count += 1
            if len(kept) > 4 * CORRECTION_PHOTOS:
                kept, stride = kept[::2], 2 * stride
            seen(count)
    return kept


def _example(program: ExportedProgram) -> tuple[torch.Tensor, ...]:
    args, _ = program.example_inputs
    return tuple(args)


def _tensors(graph: fx.GraphModule) -> tuple[TensorQuant, ...]:
    decomposed = torch.ops.quantized_decomposed
    found = []
    for node in graph.graph.nodes:
        if node.target is decomposed.quantize_per_tensor.default:
            found.append(TensorQuant(node.args[0].name, "int8", None, (float(node.args[1]),), (int(node.args[2]),)))
        elif node.target is decomposed.dequantize_per_channel.default:
            weight, scales, zeros = (_value(graph, argument) for argument in node.args[:3])
            if weight.dtype is torch.int8:
                scale, zero = tuple(scales.tolist()), tuple(int(z) for z in zeros.tolist())
                found.append(TensorQuant(node.args[0].name, "int8", int(node.args[3]), scale, zero))
    return tuple(found)


def _value(graph: fx.GraphModule, node: fx.Node) -> torch.Tensor:
    owner: object = graph
    for part in str(node.target).split("."):
        owner = getattr(owner, part)
    if not isinstance(owner, torch.Tensor):
        raise TypeError(f"{node.target} is not a tensor")
    return owner

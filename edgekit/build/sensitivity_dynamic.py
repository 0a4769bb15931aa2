"""What each linear layer of a network with attention costs when it alone computes in dynamic INT8."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from edgekit.build.graph import attribute
from edgekit.build.layer_names import modules_of
from edgekit.build.pipeline import Progress
from edgekit.build.programs import one_thread
from edgekit.build.quantize_dynamic import folded, linear_nodes
from edgekit.build.sensitivity import Run, Trial, after, call, row_of
from edgekit.build.sensitivity_rows import Sensitivity
from edgekit.build.text.integers import grid_of, rounded_rows

__all__ = ["dynamic_sensitivities"]


def dynamic_sensitivities(
    program: ExportedProgram,
    photos: Tensor,
    *,
    labels: Sequence[int] | None = None,
    progress: Progress = lambda fraction, note: None,
) -> tuple[Sensitivity, ...]:
    """Each linear layer of a program, in the order they run; on one thread.

    The layer's weights are rounded by the output row and its inputs by the row, as XNNPACK does at run time. As in
    `sensitivity.py`, only what comes after the layer runs again.

    Args:
        program: (1, 3, h, w) float32 -> (1, classes) float32.
        photos: (n, 3, h, w) float32 to judge on.
        labels: class of each photo; None leaves the drop out.
        progress: told after each photo.
    """
    graph = folded(program)
    nodes = linear_nodes(graph)
    order = {node: i for i, node in enumerate(graph.graph.nodes)}
    exact: list[Tensor] = []
    noisy: list[list[Tensor]] = [[] for _ in nodes]
    with one_thread(), torch.inference_mode():
        trials = [Trial(node, _rounded, node, None, after(node, order)) for node in nodes]
        weights = [_rounded(attribute(graph, node.args[1].target)) for node in nodes]
        for i, photo in enumerate(photos.split(1)):
            run = Run(graph, photo)
            exact.append(run.outputs())
            for trial, weight, into in zip(trials, weights, noisy, strict=True):
                into.append(_outputs(run, trial, weight))
            progress((i + 1) / len(photos), f"{len(nodes)} layers x {len(photos)} photos, photo {i + 1}")
        wanted = torch.cat(exact)
        return tuple(
            # One photo is many rows to a layer, and all of them are its work.
            replace(
                row_of(graph, trial, name, wanted, torch.cat(outputs), labels),
                macs=trial.layer.meta["val"].numel() * weight.shape[1],
            )
            for trial, weight, name, outputs in zip(trials, weights, modules_of(nodes), noisy, strict=True)
        )


def _rounded(weight: Tensor) -> Tensor:
    return torch.from_numpy(grid_of(weight).real())


def _outputs(run: Run, trial: Trial, weight: Tensor) -> Tensor:
    """(1, classes) with one layer in dynamic INT8."""
    values, layer = dict(run.values), trial.layer
    bias = values[layer.args[2]] if len(layer.args) > 2 and layer.args[2] is not None else None
    values[layer] = nn.functional.linear(rounded_rows(values[layer.args[0]]), weight, bias)
    for node in trial.rest:
        if node is not layer:
            values[node] = call(node, values)
    value = run.end.args[0]
    found: Tensor = values[value[0] if isinstance(value, tuple | list) else value]
    return found

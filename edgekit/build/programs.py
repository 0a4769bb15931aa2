"""Small dealings with exported programs: save, load, shapes, precision."""

import copy
import io
from pathlib import Path

import torch
from torch import fx
from torch.export import ExportedProgram

from edgekit.build.forms import common_forms
from edgekit.build.graph import fold_batch_norm
from edgekit.build.threads import one_thread

# Importing it registers the quantized operators, without which a saved program does not load.
import torchao.quantization.pt2e.quantize_pt2e  # noqa: F401  isort:skip

__all__ = ["edge_shapes", "graph_of", "half", "load", "one_thread", "plain", "run_each", "save", "shapes"]


def save(program: ExportedProgram, path: Path) -> None:
    """Write a program without its traces: they hold paths of this machine, and would differ from folder to folder."""
    for node in program.graph.nodes:
        for trace in ("stack_trace", "from_node", "source_fn_stack"):
            node.meta.pop(trace, None)
    # On a full disk torch's own writer ends the whole process.
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    path.write_bytes(buffer.getbuffer())


def load(path: Path) -> ExportedProgram:
    """Read what `save` wrote."""
    return torch.export.load(path)


def shapes(program: ExportedProgram) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape of the first input and of the first output, batch 1."""
    placeholder = next(n for n in program.graph.nodes if n.op == "placeholder" and n.name in program.graph_signature.user_inputs)
    output = next(n for n in program.graph.nodes if n.name == program.graph_signature.user_outputs[0])
    return tuple(int(s) for s in placeholder.meta["val"].shape), tuple(int(s) for s in output.meta["val"].shape)


def edge_shapes(program: ExportedProgram) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Shape of the input and of every output, batch 1."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    outputs = tuple(tuple(int(s) for s in values[name].shape) for name in program.graph_signature.user_outputs)
    return shapes(program)[0], outputs


def graph_of(program: ExportedProgram) -> fx.GraphModule:
    """A graph to edit, with weights of its own: `program.module()` shares them, and an edit would reach the program."""
    return copy.deepcopy(program.module(check_guards=False))


def plain(program: ExportedProgram) -> ExportedProgram:
    """The same float program with batch norms folded, in forms that engines have kernels for."""
    graph = graph_of(program)
    fold_batch_norm(graph)
    common_forms(graph)
    return torch.export.export(graph, _example(program), strict=False)


def half(program: ExportedProgram) -> ExportedProgram:
    """float32 in, weights and out -> float16 throughout; batch norms are folded in float32 first."""
    graph = graph_of(plain(program)).half()
    _retype_constants(graph)
    return torch.export.export(graph, tuple(x.half() for x in _example(program)), strict=False)


def run_each(program: ExportedProgram, images: torch.Tensor) -> torch.Tensor:
    """A program of batch 1: (n, 3, h, w) -> (n, classes)."""
    module = program.module(check_guards=False)
    with torch.inference_mode(), one_thread():
        return torch.cat([module(image[None]) for image in images])


def _retype_constants(graph: fx.GraphModule) -> None:
    """Exported code names dtypes and constants of its own: `.half()` does not reach those that are plain attributes."""
    for node in graph.graph.nodes:
        if node.op == "call_function" and torch.float32 in node.args:
            node.args = tuple(torch.float16 if a is torch.float32 else a for a in node.args)
        if node.op == "call_function" and node.kwargs.get("dtype") is torch.float32:
            node.kwargs = {**node.kwargs, "dtype": torch.float16}
    graph.recompile()


def _example(program: ExportedProgram) -> tuple[torch.Tensor, ...]:
    args, _ = program.example_inputs
    return tuple(args)

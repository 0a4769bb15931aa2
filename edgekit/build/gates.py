"""Gates that every build passes: integer operators, and payloads that agree. A payload that fails one never reaches a bundle."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from torch.export import ExportedProgram

from edgekit.build.integer import DEQUANTIZE, DEQUANTIZE_CHANNELS
from edgekit.build.operators import float_operators
from edgekit.build.quantizer import LINEARS, PADS, SAME_SCALE
from edgekit.spec.errors import GoalError
from edgekit.spec.manifest import Placement

__all__ = ["LEAST_AGREEMENT", "MOST_MEAN_STEPS", "Pair", "check_layers", "check_pairs", "check_payload"]

MOST_MEAN_STEPS = 0.5
"""Two INT8 payloads of one quantization may differ by so many steps on average."""

LEAST_AGREEMENT = 0.98
"""On so many of the photos two INT8 payloads give the same first answer."""


@dataclass(frozen=True, slots=True)
class Pair:
    """How two payloads compare over photos."""

    a: str
    b: str
    agreement_top1: float
    mean_steps: float
    max_steps: float


def check_layers(program: ExportedProgram, *, allowed: Collection[str] = ()) -> None:
    """Refuse a quantized program in which a convolution or linear layer still computes on floats.

    Args:
        program: the folded form.
        allowed: names of layers that were meant to stay in float.

    Raises:
        GoalError: `float-operator`, naming the layers.
    """
    loose = []
    for node in program.graph.nodes:
        if node.op != "call_function" or node.target not in LINEARS:
            continue
        x = node.args[0]
        while x.target in PADS or x.target in SAME_SCALE:
            x = x.args[0]
        if x.target is not DEQUANTIZE or node.args[1].target is not DEQUANTIZE_CHANNELS:
            loose.append(node.name)
    loose = [name for name in loose if name not in allowed]
    if loose:
        raise GoalError(
            f"{len(loose)} layers would run in float inside an INT8 payload: {', '.join(loose[:5])}",
            where=loose[0],
            fix="build with --precision fp16, or replace the operator that feeds the layer",
            code="float-operator",
        )


def check_payload(engine: str, placement: Placement, *, allowed: int = 0) -> None:
    """Refuse an INT8 payload in which the engine itself sees more or fewer float convolutions and matrix products than meant.

    Args:
        engine: whose payload it is.
        placement: its operators, read back from the file.
        allowed: how many layers were meant to stay in float. Fewer are wrong as well: engines round weights on their own.

    Raises:
        GoalError: `float-operator`, naming type and count.
    """
    found = float_operators(placement)
    count = sum(o.count for o in found)
    if count != allowed:
        listed = ", ".join(f"{o.count} {o.type} ({o.dtype})" for o in found) or "none"
        wanted = f"; {allowed} layers were meant to stay in float" if allowed else ""
        raise GoalError(
            f"the INT8 payload for {engine} holds {'float' if count > allowed else 'too few float'} operators: {listed}{wanted}",
            where=f"{engine}-int8",
            fix="build this engine with --precision fp16, or leave it out with --engines",
            code="float-operator",
        )


def check_pairs(pairs: Iterable[Pair], *, worst_layer: "object | None" = None) -> None:
    """Refuse INT8 payloads that disagree with their siblings.

    Args:
        pairs: all pairs of INT8 payloads.
        worst_layer: called with a failing pair, names the first layer where they part; None leaves it unnamed.

    Raises:
        GoalError: `parity`.
    """
    for pair in pairs:
        if pair.mean_steps <= MOST_MEAN_STEPS and pair.agreement_top1 >= LEAST_AGREEMENT:
            continue
        layer = worst_layer(pair) if callable(worst_layer) else ""
        raise GoalError(
            f"{pair.a} and {pair.b} disagree: {pair.mean_steps:.2f} steps on average (at most {MOST_MEAN_STEPS}), "
            f"the same answer on {pair.agreement_top1:.1%} of the photos (at least {LEAST_AGREEMENT:.0%})",
            where=layer or f"{pair.a} against {pair.b}",
            fix="leave one of the two engines out with --engines, or build with --precision fp16",
            code="parity",
        )

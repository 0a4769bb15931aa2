"""What each linear layer of a network that reads text costs when it alone computes in dynamic INT8."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from edgekit.build.likeness import best_of
from edgekit.build.pipeline import Progress
from edgekit.build.sensitivity_rows import Sensitivity
from edgekit.build.text.integers import grid_of, rounded_rows
from edgekit.build.text.plain import Plain

__all__ = ["sensitivities"]


def sensitivities(
    plain: Plain,
    texts: Sequence[Sequence[int]],
    *,
    labels: Sequence[int] | None,
    embeds: bool,
    progress: Progress = lambda fraction, note: None,
) -> tuple[Sensitivity, ...]:
    """Ids of texts -> a row for each linear layer, in order of execution.

    The layer's weights are rounded by the output row and its inputs by the row, as XNNPACK does at run time.

    Args:
        plain: the float network.
        texts: ids of each.
        labels: right classes; None without.
        embeds: whether it gives embeddings.
        progress: told as it goes.
    """
    form = plain.form(tokens=None, norm="native")
    reference = _outputs(form, texts)
    best = best_of(reference, embeds=embeds)
    right = None if labels is None else np.mean(best == np.asarray(labels))
    rows = []
    linears = plain.linears()
    tokens = float(np.mean([len(ids) for ids in texts]))
    for i, (name, linear) in enumerate(linears.items()):
        progress(i / len(linears), f"layer {i + 1} of {len(linears)}: {name}")
        with _rounded(linear):
            outputs = _outputs(form, texts)
        error = float(((outputs - reference) ** 2).sum())
        now = best_of(outputs, embeds=embeds)
        drop = None if right is None else 100 * float(right - np.mean(now == np.asarray(labels)))
        snr_db = 10 * np.log10(float((reference**2).sum()) / max(error, 1e-30))
        once = 1.0 if name in ("pooler", "head") else tokens
        size = linear.weight.numel()
        apart = 100 * float(np.mean(now != best))
        rows.append(Sensitivity(name, name, "linear", len(texts), float(snr_db), apart, drop, size, round(size * once)))
    return tuple(rows)


def _outputs(form: nn.Module, texts: Sequence[Sequence[int]]) -> np.ndarray:
    with torch.inference_mode():
        return np.concatenate([form(torch.tensor([ids]), torch.ones(1, len(ids))).numpy() for ids in texts])


@contextmanager
def _rounded(linear: nn.Linear) -> Iterator[None]:
    """The layer in dynamic INT8, for as long as the context lasts."""
    kept = linear.weight.detach().clone()
    linear.weight.data.copy_(torch.from_numpy(grid_of(linear.weight).real()))
    handle = linear.register_forward_pre_hook(lambda _, inputs: (rounded_rows(inputs[0]),))
    try:
        yield
    finally:
        handle.remove()
        linear.weight.data.copy_(kept)

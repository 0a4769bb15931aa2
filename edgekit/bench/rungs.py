"""What every rung of a bundle answers, and what each takes: the raw material of margins."""

import time
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from edgekit.runtime.loaded import Loaded

__all__ = ["Views", "rung_answers", "rung_times"]

Views = Mapping[str, np.ndarray]
"""A photo as each rung that takes one sees it: (resolution, resolution, 3) uint8 by name of the rung."""

WARM_UP = 3


def rung_answers(loaded: Sequence[Loaded], photos: Iterable[Views]) -> list[dict[str, np.ndarray]]:
    """Every rung's logits for every photo: for each payload (n, classes) by rung, in the dtype that it gives."""
    found: list[dict[str, list[np.ndarray]]] = [{step.rung.name: [] for step in each.steps} for each in loaded]
    for views in photos:
        for payload, into in zip(loaded, found, strict=True):
            outputs: tuple[np.ndarray, ...] = ()
            for step in payload.steps:
                rung = step.rung
                inputs = outputs[1:] if rung.continues else (payload.tensor(views[rung.name], rung),)
                outputs = step.run(*inputs)
                into[rung.name].append(np.asarray(outputs[0]).reshape(-1))
    return [{name: np.stack(rows) for name, rows in into.items()} for into in found]


def rung_times(loaded: Sequence[Loaded], photos: Sequence[Views], *, rounds: int) -> list[dict[str, np.ndarray]]:
    """CPU time of each rung without those before it: for each payload (rounds * n,) ms by rung.

    Payloads take turns photo by photo, so that whatever slows the machine slows all. Pixels are prepared outside of the clock.
    """
    found: list[dict[str, list[float]]] = [{step.rung.name: [] for step in each.steps} for each in loaded]
    tensors = [
        [{s.rung.name: each.tensor(views[s.rung.name], s.rung) for s in each.steps if not s.rung.continues} for views in photos]
        for each in loaded
    ]
    for turn in range(WARM_UP + rounds):
        for i in range(len(photos)):
            for payload, ready, into in zip(loaded, tensors, found, strict=True):
                outputs: tuple[np.ndarray, ...] = ()
                for step in payload.steps:
                    inputs = outputs[1:] if step.rung.continues else (ready[i][step.rung.name],)
                    begun = time.process_time_ns()
                    outputs = step.run(*inputs)
                    took = (time.process_time_ns() - begun) / 1e6
                    if turn >= WARM_UP:
                        into[step.rung.name].append(took)
    return [{name: np.asarray(rows) for name, rows in into.items()} for into in found]

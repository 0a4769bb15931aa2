"""A payload and its rungs -> its part of a bundle: files, pixel tables and golden outputs made by the very engine it is for."""

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from edgekit.build.likeness import INT8_TOLERANCE
from edgekit.build.user_code import first_line
from edgekit.runtime import engines
from edgekit.runtime.pixels import apply_table, make_table
from edgekit.spec.errors import GoalError, SetupError
from edgekit.spec.manifest import Entry, GoldenOutputs, Payload, Preprocess, Rung

__all__ = ["FLOAT_TOLERANCE", "TOLERANCE_STEPS", "Contents", "packed"]

TOLERANCE_STEPS = 2
"""Integer kernels of one engine round alike on one kind of core; another kind may differ by a step, rarely two."""

FLOAT_TOLERANCE = {"int8": INT8_TOLERANCE, "fp32": 1e-3, "fp16": 2e-2}
"""Share of the largest golden logit, where outputs are float."""

Contents = dict[str, bytes | Path]
"""Bundle path -> what lies there."""


def packed(
    payload: Payload,
    folder: Path,
    rungs: Sequence[Rung],
    preprocess: Preprocess,
    images: Mapping[str, np.ndarray],
    contents: Contents,
) -> Payload:
    """Add pixel tables and golden outputs to a payload, and its files to `contents`.

    Args:
        payload: as a lowering stage wrote it, an entry for each rung.
        folder: of its files.
        rungs: in order.
        preprocess: of photos.
        images: golden images (n, height, width, 3) uint8 of each rung that takes the photo.
        contents: of the bundle; changed in place.

    Raises:
        SetupError: the engine is not installed.
        GoalError: `goldens`; the engine cannot run the payload.
    """
    found = {entry.rung: entry for entry in payload.entries}
    alone = len(rungs) == 1
    entries = tuple(_placed(payload, found[r.name], r, folder, preprocess, contents, alone=alone) for r in rungs)
    goldens = []
    for rung, outputs in zip(rungs, _run(payload, entries, rungs, images, contents), strict=True):
        name = f"goldens/{payload.id}{'' if alone else f'-{rung.name}'}.bin"
        contents[name] = outputs.tobytes()
        floats = outputs.dtype.kind == "f"
        tolerance = FLOAT_TOLERANCE[payload.precision] * float(np.abs(outputs).max()) if floats else TOLERANCE_STEPS
        goldens.append(GoldenOutputs(rung.name, name, str(outputs.dtype), outputs.shape, round(float(tolerance), 6)))
    return dataclasses.replace(payload, entries=entries, goldens=tuple(goldens))


def _placed(
    payload: Payload, entry: Entry, rung: Rung, folder: Path, preprocess: Preprocess, contents: Contents, *, alone: bool
) -> Entry:
    """An entry with its file, and its table where it takes the photo, at their places in the bundle."""
    file = folder / Path(entry.file).name
    shared = alone or all(each.file == entry.file for each in payload.entries)
    path = f"payloads/{payload.id}{'' if shared else f'-{rung.name}'}{file.suffix}"
    contents[path] = file
    entry = dataclasses.replace(entry, file=path)
    if rung.continues:
        return entry
    spec = entry.inputs[0]
    # One table serves all entries that quantize their input alike; the name says how.
    table_file = f"tables/{spec.dtype}{'' if spec.zero_point is None else f'-{spec.zero_point}'}.bin"
    table = make_table(preprocess, spec).tobytes()
    if contents.get(table_file, table) != table:  # another resolution has a scale of its own
        table_file = table_file.replace(".bin", f"-{rung.name}.bin")
    contents[table_file] = table
    return dataclasses.replace(entry, pixel_table=table_file)


def _run(
    payload: Payload, entries: Sequence[Entry], rungs: Sequence[Rung], images: Mapping[str, np.ndarray], contents: Contents
) -> list[np.ndarray]:
    """Golden images through the very engine that the bundle is for -> (n, classes) of each rung."""
    engine = engines.find(payload.engine)
    if engine.version() is None:
        raise SetupError(
            f"the engine {payload.engine} is not installed, so its golden vectors cannot be made",
            where=payload.engine,
            fix=engine.INSTALL,
            code="engine-missing",
        )
    found: list[np.ndarray] = []
    with contextlib.ExitStack() as stack:
        outputs: list[tuple[np.ndarray, ...]] = []
        for rung, entry in zip(rungs, entries, strict=True):
            file = contents[entry.file]
            session = stack.enter_context(contextlib.closing(engine.load(Path(str(file)), entry, threads=1)))
            try:
                if rung.continues:
                    outputs = [session.run(*each[1:]) for each in outputs]
                else:
                    table = np.frombuffer(_bytes(contents[str(entry.pixel_table)]), entry.inputs[0].dtype).reshape(3, 256)
                    layout = entry.inputs[0].layout
                    outputs = [session.run(apply_table(image, table, layout=layout)) for image in images[rung.name]]
            except RuntimeError as error:  # engines raise it for operators whose shapes they get wrong
                raise GoalError(
                    f"{payload.engine} cannot run its payload: {first_line(error)}",
                    where=Path(entry.file).name,
                    fix=f"leave {payload.engine} out with --engines, or replace the operators that are unusual in this network",
                    code="goldens",
                ) from error
            found.append(np.concatenate([each[0] for each in outputs]))
    return found


def _bytes(content: bytes | Path) -> bytes:
    return content if isinstance(content, bytes) else content.read_bytes()

"""`edgekit.build`: the command of that name as a function, with names in place of resolved parts."""

from collections.abc import Callable
from pathlib import Path

from edgekit import catalog
from edgekit.build.compression import Compression
from edgekit.build.pipeline import Event
from edgekit.build.request import ENGINES, BuildRequest, BuildResult
from edgekit.build.text.kinds import refuse_checkpoint_of_another_kind, refuse_teacher_of_another_kind, refuse_text_options

__all__ = ["build"]


def build(
    model: str,
    *,
    target: str = "host",
    out: str | Path | None = None,
    data: str | Path | None = None,
    weights: str | Path | None = None,
    precisions: tuple[str, ...] = ("int8",),
    engines: tuple[str, ...] = ENGINES,
    resolution_px: int | None = None,
    task: str | None = None,
    tokens: tuple[int, ...] = (),
    compression: Compression = Compression(),  # noqa: B008 - frozen
    observe: Callable[[Event], None] = lambda event: None,
) -> BuildResult:
    """Build, prove and deliver a bundle.

    Args:
        model: a name, `path/to/file.py:make`, `timm:NAME` or `hf:DIR`.
        target: name of the device, or path of its file.
        out: directory of the bundle, or a name that ends in `.ekb`; None takes `<model>-<target>` here.
        data: folder or `.npz` of photos, or CSV of texts, to calibrate and judge on; None takes samples that edgekit or
            installed packages bring.
        weights: trained weights; None takes those that the model names, random ones where it has none.
        precisions: `int8`, `fp16`, `fp32`; for text `int8-weights` and `int8-static` too.
        engines: `executorch`, `litert`, `onnx`.
        resolution_px: side of the input; None takes the model's own.
        task: of a network that reads text: `text-classification` or `sentence-embedding`; None decides by the data.
        tokens: lengths of text, ascending; none takes the model's own.
        compression: training, teacher, pruning, and how much may be lost.
        observe: told of every stage.

    Raises:
        InputError: model, weights or data are wrong.
        GoalError: a gate or goal is not met.
        SetupError: something is not installed, or cannot be written.
    """
    source, profile = catalog.find_model(model), catalog.find_target(target)
    refuse_text_options(source, task=task, tokens=tokens, precisions=precisions)
    refuse_teacher_of_another_kind(source, compression)
    refuse_checkpoint_of_another_kind(source, None if weights is None else Path(weights))
    place = Path(out) if out is not None else Path(f"{source.name}-{profile.name}")
    request = BuildRequest(
        model=source,
        target=profile,
        out=place,
        data_dir=None if data is None else Path(data),
        weights=None if weights is None else Path(weights),
        precisions=precisions,
        engines=engines,
        resolution_px=resolution_px,
        task=task,
        tokens=tokens,
        zip=place.suffix == ".ekb",
        compression=compression,
    )
    from edgekit.build import api

    return api.build(request, observe=observe)

"""`edgekit.build`: the command of that name as a function, with names in place of resolved parts."""

from collections.abc import Callable
from pathlib import Path

from edgekit import catalog
from edgekit.build.compression import Compression
from edgekit.build.pipeline import Event
from edgekit.build.request import ENGINES, BuildRequest, BuildResult

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
    compression: Compression = Compression(),  # noqa: B008 - frozen
    observe: Callable[[Event], None] = lambda event: None,
) -> BuildResult:
    """Build, prove and deliver a bundle.

    Args:
        model: a name, `path/to/file.py:make` or `timm:NAME`.
        target: name of the device, or path of its file.
        out: directory of the bundle, or a name that ends in `.ekb`; None takes `<model>-<target>` here.
        data: folder or `.npz` of photos to calibrate and judge on; None takes sample photos of installed packages.
        weights: trained weights; None takes those that the model names, random ones where it has none.
        precisions: `int8`, `fp16`, `fp32`.
        engines: `executorch`, `litert`, `onnx`.
        resolution_px: side of the input; None takes the model's own.
        compression: training, teacher, pruning, and how much may be lost.
        observe: told of every stage.

    Raises:
        InputError: model, weights or data are wrong.
        GoalError: a gate or goal is not met.
        SetupError: something is not installed, or cannot be written.
    """
    source, profile = catalog.find_model(model), catalog.find_target(target)
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
        zip=place.suffix == ".ekb",
        compression=compression,
    )
    from edgekit.build import api

    return api.build(request, observe=observe)

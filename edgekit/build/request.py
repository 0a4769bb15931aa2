"""What a build is asked for, what it plans and what it gives: plain values, free of torch, shared by builder and command line."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgekit.build.compression import Compression
from edgekit.build.ladder.wish import Adaptive
from edgekit.build.model_source import ModelSource
from edgekit.build.pipeline import StageRun
from edgekit.spec.target import TargetProfile

if TYPE_CHECKING:
    from edgekit.build.ladder.found import LadderFound
    from edgekit.build.outcome import GradedNetwork, Guarded
    from edgekit.build.sensitivity_rows import Sensitivity

__all__ = [
    "ENGINES",
    "PRECISIONS",
    "TEXT_PRECISIONS",
    "BuildRequest",
    "BuildResult",
    "FitResult",
    "ModelSource",
    "PayloadRow",
    "Plan",
    "PlannedChain",
    "PlannedStage",
]

ENGINES = ("executorch", "litert", "onnx")
"""The formats that are built unless the user says otherwise."""

PRECISIONS = ("int8", "fp16", "fp32")

TEXT_PRECISIONS = (*PRECISIONS, "int8-weights", "int8-static")
"""Of networks that read text, whose `int8` takes the ranges of activations at run time."""


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """One build. Names are resolved and paths were checked; their content was not read yet.

    Attributes:
        model: the network: a built-in, the user's own file or a timm name.
        target: the device.
        out: the bundle to write: a directory, or a file that ends in `.ekb` if `zip`.
        data_dir: the user's images for calibration and judging; None takes photos that installed packages ship.
        weights: the user's weights; None takes those of the model's SPEC, random ones where it has none.
        precisions: in the order asked for.
        engines: payload formats, in the order asked for.
        resolution_px: side of the image that the network sees; None takes the model's own.
        task: of a network that reads text: `text-classification` or `sentence-embedding`; None by the data.
        tokens: lengths of text that a network that reads text is built for, ascending; empty takes the model's own.
        max_latency_ms: goal on the target; None if there is none.
        zip: pack into one `.ekb` file.
        classes: size of the last layer; None takes the model's own, or what the weights hold.
        seed: of random weights and of every choice by lot.
        calibration_limit: photos that set the ranges.
        store: folder of finished stages; None takes the default.
        compression: training, teacher, pruning, guard.
        adaptive: a ladder of early exits, resolutions or networks; None builds a plain network.
    """

    model: ModelSource
    target: TargetProfile
    out: Path
    data_dir: Path | None = None
    weights: Path | None = None
    precisions: tuple[str, ...] = ("int8",)
    engines: tuple[str, ...] = ENGINES
    resolution_px: int | None = None
    task: str | None = None
    tokens: tuple[int, ...] = ()
    max_latency_ms: float | None = None
    zip: bool = False
    classes: int | None = None
    seed: int = 0
    calibration_limit: int = 128
    store: Path | None = None
    compression: Compression = Compression()  # noqa: RUF009 - frozen
    adaptive: Adaptive | None = None


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """One stage of a plan; `fields` is its configuration as a person reads it."""

    name: str
    accepts: str
    returns: str
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PlannedChain:
    """A straight chain of stages and what it is for, such as `executorch-int8`."""

    name: str
    stages: tuple[PlannedStage, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a build would do; `notes` are remarks for the user."""

    model: str
    target: str
    out: Path
    chains: tuple[PlannedChain, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PayloadRow:
    """One payload of a finished bundle, as the table at the end of a build shows it.

    Attributes:
        engine: the format.
        precision: `int8`, `fp16` or `fp32`.
        file: path inside the bundle.
        size_bytes: of that file.
        agreement_top1: share of photos (0..1) on which it gives the float model's first answer; None if it was not judged.
        drop_pp: top-1 of the float model minus its own, in percentage points; None without labelled data.
        latency_ms_here: median of one run on this machine, one thread; None if the engine is not installed here.
        delegate: who runs the network inside the engine, such as `XNNPACK`.
        placement: one line: what ran where, such as `1 XNNPACK call, 61 int8 operators`.
        top1: share (0..1) of right first answers; None without labelled data.
        interval_pp: 95 % interval of `drop_pp`.
        n: photos it was judged on.
    """

    engine: str
    precision: str
    file: str
    size_bytes: int
    agreement_top1: float | None
    drop_pp: float | None
    latency_ms_here: float | None
    delegate: str
    placement: str
    top1: float | None = None
    interval_pp: tuple[float, float] | None = None
    n: int = 0


@dataclass(frozen=True, slots=True)
class BuildResult:
    """A finished, verified bundle and how it came about.

    Attributes:
        bundle: where it is.
        digest: its own.
        model: name of the network.
        target: name of the device.
        seconds: since the build began.
        stages: how each went.
        payloads: the table.
        notes: for the user.
        networks: float networks that were trained, on photos that no training saw.
        guarded: how much may be lost, if that was asked.
        sensitivities: of every layer, if they were measured.
        ladder: what was chosen and what it was held against, if one was wished for.
    """

    bundle: Path
    digest: str
    model: str
    target: str
    seconds: float
    stages: tuple[StageRun, ...]
    payloads: tuple[PayloadRow, ...]
    notes: tuple[str, ...] = ()
    networks: "tuple[GradedNetwork, ...]" = ()
    guarded: "Guarded | None" = None
    sensitivities: "tuple[Sensitivity, ...]" = ()
    ladder: "LadderFound | None" = None


@dataclass(frozen=True, slots=True)
class FitResult:
    """A float network that was trained, without a bundle.

    Attributes:
        checkpoint: folder that `--weights` takes.
        model: name of the network.
        seconds: since it began.
        stages: how each went.
        networks: on photos that no training saw.
        notes: for the user.
    """

    checkpoint: Path
    model: str
    seconds: float
    stages: tuple[StageRun, ...]
    networks: "tuple[GradedNetwork, ...]"
    notes: tuple[str, ...] = ()

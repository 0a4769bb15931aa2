"""A request as straight chains of stages. Chains that begin alike share that work through the store."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

from edgekit.build.artifact import Artifact, Pinned
from edgekit.build.data import Dataset
from edgekit.build.facts import Facts
from edgekit.build.labels import label_list
from edgekit.build.learners import Learners, learners_of
from edgekit.build.network import Network
from edgekit.build.origin import version_of
from edgekit.build.photos import Photos, choose, of_splits
from edgekit.build.pipeline import Stage
from edgekit.build.preparing import Learner, Prepared, Walk, prepare
from edgekit.build.recipe import Recipe
from edgekit.build.request import BuildRequest
from edgekit.build.splits import Splits
from edgekit.build.stages import Export, Judge, LowerFloat, LowerInteger, Pack, Quantize
from edgekit.build.stages.quantize import is_dynamic
from edgekit.runtime.verdicts import machine
from edgekit.spec.digest import sha256_bytes
from edgekit.spec.manifest import Rung, TargetInfo

__all__ = ["Bundled", "Chains", "chains_of", "shown"]

ENGINE_DISTRIBUTIONS = {"executorch": "executorch", "litert": "ai-edge-litert", "onnx": "onnxruntime"}
SHOWN = 5
FEW_PHOTOS = 16
PROVEN_BY = ("edgekit", "torch", "torchao", "executorch", "litert-torch", "onnx", "onnxscript", "onnxruntime", "ai-edge-litert")
STATIC = "static int8, one scale a tensor for activations, one an output channel for weights"
DYNAMIC = "dynamic int8 of linear layers: activations rounded at run time, one scale an output row for weights"
PLACEHOLDER = "0" * 64
"""Digest of what a plan has not made."""


@dataclass(frozen=True, slots=True)
class Bundled:
    """A bundle in the store and what it was made of; `quantized` is None without INT8."""

    bundle: Artifact
    quantized: Artifact | None


@dataclass(frozen=True, slots=True)
class Chains:
    """Everything that a build runs.

    Attributes:
        learners: networks and data.
        photos: to calibrate and judge on.
        notes: for the user.
        request: what was asked for.
        labels: names of the classes.
        device: `cpu` or `cuda`, for training.
    """

    learners: Learners
    photos: Photos
    notes: tuple[str, ...]
    request: BuildRequest
    labels: tuple[str, ...]
    device: str

    @property
    def facts(self) -> Facts:
        """Of the network, as far as they are known beforehand."""
        return self.learners.student.facts

    @property
    def network(self) -> Network:
        """The network to build."""
        return self.learners.student.network

    @property
    def splits(self) -> Splits | None:
        """The data in parts, if a build trains or decides on it."""
        return self.learners.splits

    def prepare(self, walk: Walk) -> Prepared:
        """The float network, trained and made smaller as wished."""
        request = self.request
        return prepare(
            self.learners.student,
            self.learners.teacher,
            splits=self.splits,
            wish=request.compression,
            seed=request.seed,
            device=self.device,
            walk=walk,
        )

    def export(self, checkpoint: Artifact, walk: Walk) -> Artifact:
        """A checkpoint -> the float program."""
        return walk("network", (Export(self.network),), checkpoint)

    def bundle(self, program: Artifact, walk: Walk, *, recipe: Recipe | None = None, quantize: Stage | None = None) -> Bundled:
        """The float program -> a bundle of all payloads that were asked for.

        Args:
            program: exported.
            walk: runs or notes a chain.
            recipe: of the quantization; None takes the usual one.
            quantize: another stage that quantizes, such as quantization-aware training.
        """
        stage = quantize or Quantize(self.photos, recipe or Recipe())
        integer = "int8" in self.request.precisions
        quantized = walk("int8", (stage,), program) if integer else None
        payloads = []
        for precision in self.request.precisions:
            for engine in self.request.engines:
                if precision == "int8" and quantized is not None:
                    lower: Stage = LowerInteger(engine, self.request.target.onnx_activation_dtype)
                    payloads.append(walk(f"{engine}-int8", (lower,), quantized))
                else:
                    payloads.append(walk(f"{engine}-{precision}", (LowerFloat(engine, precision),), program))
        told = {} if quantize is None and recipe is None else {"repair": _told(recipe, quantize)}
        return Bundled(walk("bundle", (self.pack(tuple(payloads), quantized, told=told),), program), quantized)

    def pack(
        self, payloads: tuple[Artifact, ...], quantized: Artifact | None, *, told: Mapping[str, str], rungs: tuple[Rung, ...] = ()
    ) -> Pack:
        """Payloads -> a bundle; `rungs` are those of a ladder, `told` more of how it came about."""
        target = TargetInfo(self.request.target.name, tuple(e.engine for e in self.request.target.engines))
        provenance = MappingProxyType({**self._provenance(quantized), **told})
        return Pack(payloads, target, self.photos, provenance, self.labels, rungs)

    def judge(self, program: Artifact, made: Bundled, walk: Walk) -> Artifact:
        """The report that proves a bundle here."""
        return walk("bundle", (Judge(program, made.quantized, self.photos, MappingProxyType(self.here())),), made.bundle)

    def here(self) -> dict[str, str]:
        """What times on this machine depend on: processor and engine versions."""
        return {**machine(), **{e: version_of(ENGINE_DISTRIBUTIONS.get(e, e)) for e in self.request.engines}}

    def _provenance(self, quantized: Artifact | None) -> dict[str, str]:
        request = self.request
        told = {
            "model": f"timm:{request.model.factory}" if request.model.kind == "timm" else request.model.name,
            "model_kind": request.model.kind,
            "seed": str(request.seed),
            "calibration": "sample photos" if request.data_dir is None else "user data",
            "calibration_photos": str(self.photos.calibration),
            "calibration_digest": sha256_bytes(self.photos.digest.encode()),
            "quantization": DYNAMIC if quantized is not None and is_dynamic(quantized.path) else STATIC,
            "onnx_activation_dtype": request.target.onnx_activation_dtype,
        }
        return told | {name: version_of(name) for name in PROVEN_BY}


def chains_of(request: BuildRequest) -> Chains:
    """Resolve networks, weights and photos.

    Raises:
        InputError: weights or data cannot be used.
        SetupError: a package that holds the weights or the sample photos is not installed, or there is no GPU.
    """
    learners = learners_of(request)
    if learners.splits is None or learners.parts is None:
        folder = None if request.data_dir is None else Pinned(request.data_dir, "")
        photos, calibration = choose(folder, calibration=request.calibration_limit, seed=request.seed)
    else:
        photos, calibration = of_splits(learners.splits, learners.parts, calibration=request.calibration_limit)
    student = learners.student
    device = "cpu"
    if learners.splits is not None:
        from edgekit.build.training.device import resolve

        device = resolve(request.compression.device)
    notes = (*_photo_notes(calibration), *_fit_notes(learners))
    return Chains(learners, photos, notes, request, _labels(student, calibration), device)


def _labels(student: Learner, calibration: Dataset) -> tuple[str, ...]:
    if student.fits:
        return calibration.classes
    facts = student.facts
    return facts.names or label_list(facts.labels, calibration.classes, facts.classes)


def _fit_notes(learners: Learners) -> list[str]:
    if learners.splits is None or not learners.splits.trains or learners.parts is None:
        return []
    parts, weights = learners.parts, learners.student.network.weights
    now = learners.student.fits or learners.teacher is not None or weights is None or not weights.path.is_dir()
    who = "" if now else "the checkpoint was "
    return [f"{who}trained on {len(parts.fit)} photos; decided on {len(parts.tune)}, reported on {len(parts.report)}"]


def _photo_notes(calibration: Dataset) -> list[str]:
    notes = []
    if calibration.skipped:
        named = "; ".join(f"{s.path}: {s.why}" for s in calibration.skipped[:SHOWN])
        more = "; ..." if len(calibration.skipped) > SHOWN else ""
        notes.append(f"skipped photos that cannot be used: {len(calibration.skipped)}: {named}{more}")
    if len(calibration) < FEW_PHOTOS:
        notes.append(f"ranges come from few photos: {len(calibration)}; give at least {FEW_PHOTOS}, or INT8 may be far off")
    return notes


def shown(stage: Stage) -> Mapping[str, str]:
    """A stage's configuration as a person reads it."""
    named = {f.name: getattr(stage, f.name) for f in fields(stage)}  # type: ignore[arg-type]
    return MappingProxyType({name: text for name, value in named.items() if (text := _shown(value))})


def _told(recipe: Recipe | None, quantize: Stage | None) -> str:
    recipe = getattr(quantize, "recipe", recipe) or Recipe()
    parts = [f"observer {recipe.observer}"]
    parts += ["channels equalised"] if recipe.equalise else []
    parts += [f"in float: {', '.join(recipe.float_layers)}"] if recipe.float_layers else []
    return "; ".join(parts + (["quantization-aware training"] if quantize is not None else []))


def _shown(value: object) -> str:
    if isinstance(value, Network):
        return f"{value.kind} {value.factory}"
    if isinstance(value, Photos):
        place = "sample photos" if value.folder is None else str(value.folder.path)
        return f"{value.calibration} of {place}"
    if isinstance(value, bool) or value is None:
        return ""
    return str(value) if isinstance(value, str | int | float) else ""

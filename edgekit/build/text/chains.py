"""A build of a network that reads text as straight chains of stages."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from edgekit.build.artifact import Artifact, pin
from edgekit.build.chains import ENGINE_DISTRIBUTIONS, PROVEN_BY, Bundled
from edgekit.build.origin import version_of
from edgekit.build.preparing import SOURCE, Walk
from edgekit.build.recipe import Recipe
from edgekit.build.request import BuildRequest
from edgekit.build.stages.answer_text import AnswerText, AnswerTextBundle
from edgekit.build.stages.fit_text import DistillText, FitText
from edgekit.build.stages.judge_text import JudgeText
from edgekit.build.stages.load_text import LoadText
from edgekit.build.stages.lower_text import LowerText
from edgekit.build.stages.pack_text import PackText
from edgekit.build.text.facts import CLASSIFICATION
from edgekit.build.text.origin import TextOrigin, text_origin
from edgekit.build.text.refusals import (
    names_of,
    refuse_ladder,
    refuse_options,
    refuse_task,
    refuse_teacher,
    refuse_unlabelled,
    tells_classes_apart,
    tokens_of,
)
from edgekit.build.text.splits import TextSplits, choose_text_splits
from edgekit.build.training.plan import TEXT_TRAINING, Training
from edgekit.runtime.verdicts import machine
from edgekit.spec.errors import InputError
from edgekit.spec.manifest import Rung, TargetInfo

__all__ = ["TextChains", "text_chains"]


@dataclass(frozen=True, slots=True)
class TextChains:
    """Everything that a build runs.

    Attributes:
        request: what was asked for.
        student: the network to build.
        teacher: to learn from; None without one.
        splits: the data; None without.
        fits: whether the student is trained on it.
        tokens: buckets.
        training: how long.
        notes: for the user.
    """

    request: BuildRequest
    student: TextOrigin
    teacher: TextOrigin | None
    splits: TextSplits | None
    fits: bool
    tokens: tuple[int, ...]
    training: Training
    notes: tuple[str, ...]

    def prepare(self, walk: Walk) -> Artifact:
        """The float network, trained as wished."""
        checkpoint = walk("student", (LoadText(self.student, self.tokens[-1]),), SOURCE)
        if not self.fits or self.splits is None:
            return checkpoint
        if self.teacher is None:
            return walk("student", (FitText(self.splits, self.training),), checkpoint)
        taught = walk("teacher", (LoadText(self.teacher, self.tokens[-1]),), SOURCE)
        if self.teacher.kind != "checkpoint":
            taught = walk("teacher", (FitText(self.splits, self.training),), taught)
        more = self.request.compression.unlabelled
        distill = DistillText(taught, self.splits, self.training, unlabelled=None if more is None else pin(more))
        return walk("student", (distill,), checkpoint)

    def bundle(self, checkpoint: Artifact, walk: Walk, *, recipe: Recipe | None = None) -> Bundled:
        """A checkpoint -> a bundle of all payloads that were asked for."""
        layers = () if recipe is None else recipe.float_layers
        payloads = []
        for precision in self.request.precisions:
            for engine in self.request.engines:
                floats = layers if precision.startswith("int8") else ()
                texts = self.splits if precision == "int8-static" else None
                stage = LowerText(engine, precision, self.tokens, floats, texts)
                payloads.append(walk(f"{engine}-{precision}", (stage,), checkpoint))
        return self.pack(tuple(payloads), checkpoint, walk, told={"float_layers": ", ".join(layers)} if layers else {})

    def pack(
        self,
        payloads: tuple[Artifact, ...],
        checkpoint: Artifact,
        walk: Walk,
        *,
        rungs: tuple[Rung, ...] = (),
        told: Mapping[str, str],
    ) -> Bundled:
        """Payloads -> a bundle, whose provenance tells what is `told` as well; see `PackText`."""
        target = TargetInfo(self.request.target.name, tuple(e.engine for e in self.request.target.engines))
        provenance = MappingProxyType({**self._provenance(), **told})
        return Bundled(walk("bundle", (PackText(payloads, target, provenance, rungs),), checkpoint), None)

    def judge(self, checkpoint: Artifact, made: Bundled, walk: Walk, *, reference: Artifact | None = None) -> Artifact:
        """The report that proves a bundle here; `reference` is the float network that payloads are held against."""
        whole = checkpoint if reference is None else reference
        said = walk("float", (AnswerText(self.splits, "report"),), whole)
        answers = walk("bundle", (AnswerTextBundle(whole, self.splits, "report"),), made.bundle)
        here = {**machine(), **{e: version_of(ENGINE_DISTRIBUTIONS.get(e, e)) for e in self.request.engines}}
        return walk("bundle", (JudgeText(whole, said, answers, MappingProxyType(here)),), made.bundle)

    def _provenance(self) -> Mapping[str, str]:
        request = self.request
        told = {
            "model": request.model.name,
            "model_kind": request.model.kind,
            "seed": str(request.seed),
            "quantization": "dynamic int8: weights by the output row, rounded once; activations at run time",
        }
        return told | {name: version_of(name) for name in (*PROVEN_BY, "tokenizers")}


def text_chains(request: BuildRequest) -> TextChains:
    """Resolve network, weights and texts.

    Raises:
        InputError: weights or data cannot be used, or an option is for images only.
        SetupError: a package that holds weights or vocabulary is not installed.
    """
    refuse_options(request)
    wish = request.compression
    student = text_origin(request.model, weights=request.weights, seed=request.seed)
    tokens = tokens_of(request, student)
    teacher = None
    if wish.teacher is not None:
        teacher = text_origin(wish.teacher.model, weights=wish.teacher.weights, seed=request.seed)
    fits = _fits(request, student)
    refuse_ladder(request, student, fits=fits)
    learns = fits or request.adaptive is not None
    if (learns or teacher is not None or wish.max_drop_pp is not None) and request.data_dir is None:
        raise InputError(
            "there is no data to train or decide on",
            where="--data",
            fix="give a CSV with the columns text and label, or a folder with train.csv and validation.csv",
            code="data-missing",
        )
    refuse_task(request, student, fits=fits)
    refuse_unlabelled(wish)
    splits = None
    notes: list[str] = []
    if request.data_dir is not None:
        trains = _divided_for_training(request, learns)
        splits, parts = choose_text_splits(request.data_dir, seed=request.seed, trains=trains)
        who = "" if fits else "exits " if learns else "the checkpoint was "
        learned = f"{who}trained on {len(parts.fit)} texts; " if trains else ""
        notes.append(f"{learned}decided on {len(parts.tune)}, reported on {len(parts.report)}")
        if not fits and tells_classes_apart(student) and not set(splits.classes) <= set(names_of(student)):
            if learns:
                raise InputError(
                    "exits learn from labels, and the network calls its classes otherwise than the data does",
                    where="--adaptive",
                    fix=f"rename the labels to the network's: {', '.join(names_of(student)[:3])} ..., or leave --epochs 0 out",
                    code="ladder-classes",
                )
            notes.append(
                "the network calls its classes otherwise than the data: judged by what it answers in float, not by labels"
            )
        if teacher is not None:
            refuse_teacher(student, teacher, splits.classes, tokens=tokens[-1])
    training = replace(TEXT_TRAINING, seed=request.seed, device=_device(wish.device) if learns else "cpu")
    if wish.epochs:
        training = replace(training, epochs=wish.epochs, patience=max(3, wish.epochs // 2))
    if wish.batch_size != training.batch_size:
        training = replace(training, batch_size=wish.batch_size, micro_batch=min(wish.batch_size, training.micro_batch))
    if wish.learning_rate is not None:
        training = replace(training, learning_rate=wish.learning_rate)
    return TextChains(request, student, teacher, splits, fits, tokens, training, tuple(notes))


def _fits(request: BuildRequest, student: TextOrigin) -> bool:
    """Whether the network is trained: where it is to tell classes apart and does not yet, or the user says for how long."""
    if request.compression.epochs == 0:
        return False
    if request.compression.epochs or request.compression.teacher is not None:
        return True
    task = request.task or (CLASSIFICATION if request.data_dir is not None else None)
    if task != CLASSIFICATION:
        return False
    return not tells_classes_apart(student) or _of_other_classes(request, student)


def _of_other_classes(request: BuildRequest, student: TextOrigin) -> bool:
    """Whether the data has classes that the network has no outputs for; names alone may differ."""
    names = names_of(student)
    if request.data_dir is None or not names:
        return False
    classes = choose_text_splits(request.data_dir, seed=request.seed, trains=True)[0].classes
    return len(classes) != len(names) and not set(classes) <= set(names)


def _divided_for_training(request: BuildRequest, fits: bool) -> bool:
    """A checkpoint that was fitted here to these texts has kept the same ones apart."""
    from edgekit.build.facts import read_trained_on

    weights: Path | None = request.weights
    if fits or weights is None or not weights.is_dir():
        return fits
    trained_on = read_trained_on(weights)
    if trained_on is None or request.data_dir is None:
        return False
    splits, _ = choose_text_splits(request.data_dir, seed=request.seed, trains=True)
    return splits.folder.digest == trained_on


def _device(wanted: str) -> str:
    from edgekit.build.training.device import resolve

    return resolve(wanted)

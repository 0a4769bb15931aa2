"""Which networks are trained on which part of the data: decided before anything slow."""

from dataclasses import dataclass
from pathlib import Path

from edgekit.build.data import class_names
from edgekit.build.facts import Facts, read_trained_on
from edgekit.build.labels import label_list
from edgekit.build.model_source import ModelSource
from edgekit.build.network import Network
from edgekit.build.origin import network_of
from edgekit.build.preparing import Learner
from edgekit.build.request import BuildRequest
from edgekit.build.splits import Parts, Splits, choose_splits
from edgekit.spec.errors import InputError

__all__ = ["Learners", "learner_of", "learners_of"]


@dataclass(frozen=True, slots=True)
class Learners:
    """The networks of a build and the data they learn from.

    Attributes:
        student: the network to build.
        teacher: to learn from; None without one.
        splits: the data in parts; None where nothing is trained, decided or reported on parts.
        parts: the data sets themselves.
    """

    student: Learner
    teacher: Learner | None
    splits: Splits | None
    parts: Parts | None


def learners_of(request: BuildRequest) -> Learners:
    """Resolve networks and data.

    Raises:
        InputError: weights or data cannot be used, or do not fit each other.
        SetupError: a package that holds weights is not installed.
    """
    wish = request.compression
    names = () if request.data_dir is None else class_names(request.data_dir)
    student = learner_of(request.model, request.weights, request, names)
    teacher = None
    if wish.teacher is not None:
        teacher = learner_of(wish.teacher.model, wish.teacher.weights, request, names, asked=False)
    trains = student.fits or teacher is not None or wish.shapes
    if not (trains or wish.max_drop_pp is not None or wish.sensitivity or request.adaptive is not None):
        return Learners(student, teacher, None, None)
    if request.data_dir is None:
        raise InputError(
            "there is no data to train or decide on",
            where="--data",
            fix="give photos: --data DIR, with one folder a class for labels",
            code="data-missing",
        )
    splits, parts = choose_splits(request.data_dir, seed=request.seed, trains=True)
    if trains:
        _check_labels(splits, request)
    elif splits.folder.digest != _trained_on(request.weights):
        splits, parts = choose_splits(request.data_dir, seed=request.seed, trains=False)
    if not student.fits:
        names = student.facts.names or label_list(student.facts.labels, (), 0)
        matched = splits.matched(names, _outputs(student.network, student.facts))
        splits, parts = matched, parts if matched == splits else matched.open()
    return Learners(student, teacher, splits, parts)


def learner_of(
    source: ModelSource, weights: Path | None, request: BuildRequest, names: tuple[str, ...], *, asked: bool = True
) -> Learner:
    """A network and whether its head has to be fitted; `asked`: whether --classes and --epochs are about this one."""
    epochs = request.compression.epochs
    wanted = request.classes if asked else None
    pretrained = source.spec is not None and source.spec.weights is not None and weights is None
    classes = None if pretrained and len(names) > 1 and wanted == len(names) else wanted
    network, facts = network_of(source, weights=weights, classes=classes, seed=request.seed, resolution_px=request.resolution_px)
    if epochs == 0 or len(names) < 2:
        return Learner(network, facts, fits=bool(epochs))
    other = _outputs(network, facts) not in (0, len(names)) and not set(names) <= set(label_list(facts.labels, (), 0))
    return Learner(network, facts, fits=other or (asked and bool(epochs) and request.compression.teacher is None))


def _outputs(network: Network, facts: Facts) -> int:
    """Outputs as far as they are known before the network is loaded; 0 if they are not."""
    if network.classes is None and (network.weights is not None or not facts.classes):
        from edgekit.build.construct import head_rows

        return head_rows(network) or facts.classes
    return network.classes or facts.classes


def _trained_on(weights: Path | None) -> str | None:
    """Digest of the photos, in parts, that a checkpoint was fitted on: of the same ones, those kept apart then are still new."""
    return read_trained_on(weights) if weights is not None and weights.is_dir() else None


def _check_labels(splits: Splits, request: BuildRequest) -> None:
    place = str(request.data_dir)
    if not splits.labelled:
        raise InputError(
            "the photos have no labels to train on", where=place, fix="put them into one folder a class", code="labels-missing"
        )
    if len(splits.classes) == 1:
        raise InputError(
            f"the photos are all of one class, {splits.classes[0]!r}: there is nothing to tell apart",
            where=place,
            fix="add photos of other classes",
            code="one-class",
        )

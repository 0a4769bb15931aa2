"""What is refused of a build whose network reads text before anything slow: options, pairs and sizes that cannot be."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from edgekit.build.compression import Compression
from edgekit.build.request import ENGINES, TEXT_PRECISIONS, BuildRequest
from edgekit.build.text.config import read_classes
from edgekit.build.text.exit_places import exit_layers
from edgekit.build.text.facts import CLASSIFICATION, EMBEDDING, read_text_facts
from edgekit.build.text.kinds import refuse_teacher_of_another_kind
from edgekit.spec.errors import InputError, UnknownName

if TYPE_CHECKING:
    from edgekit.build.text.origin import TextOrigin
    from edgekit.build.text.tokenizer import Tokenizer

__all__ = [
    "names_of",
    "refuse_ladder",
    "refuse_options",
    "refuse_task",
    "refuse_teacher",
    "refuse_unlabelled",
    "tells_classes_apart",
    "tokens_of",
]

_ENGINES_OF: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"int8-weights": ("onnx", "litert"), "int8-static": ("executorch", "onnx")}
)
"""Precisions that not every engine lowers text to."""


def refuse_options(request: BuildRequest) -> None:
    """Options of images, precisions that an engine has not, and a teacher that looks at images.

    Raises:
        InputError: `argument`, `text-precision` or `teacher-kind`.
    """
    wish, name = request.compression, request.model.name
    for given, option in (
        (request.resolution_px, "--resolution"),
        (wish.prune, "--prune"),
        (wish.prune_macs, "--prune-macs"),
        (wish.separable or None, "--separable"),
        (wish.recovery_epochs, "--recovery-epochs"),
        (request.classes, "--classes"),
    ):
        if given is not None:
            raise InputError(
                f"{name} reads text: {option} is for networks that look at images",
                where=option,
                fix=f"leave {option} out",
                code="argument",
            )
    for engine in request.engines:
        if engine not in ENGINES:
            raise UnknownName("lowering of networks that read text", engine, ENGINES, listing="edgekit doctor")
    for precision in request.precisions:
        if precision not in TEXT_PRECISIONS:
            raise UnknownName("precision", precision, TEXT_PRECISIONS)
        engines = _ENGINES_OF.get(precision, request.engines)
        lacking = [engine for engine in request.engines if engine not in engines]
        if lacking:
            raise InputError(
                f"{', '.join(lacking)} has no {precision} for networks that read text",
                where="--precision",
                fix=f"add --engines {','.join(engines)}, or take another --precision",
                code="text-precision",
            )
    refuse_teacher_of_another_kind(request.model, wish)


def tells_classes_apart(origin: "TextOrigin") -> bool:
    """Whether a network comes with a head."""
    if origin.kind == "checkpoint":
        return read_text_facts(origin.folder.path).task == CLASSIFICATION
    return bool(names_of(origin))


def names_of(origin: "TextOrigin") -> tuple[str, ...]:
    """What a network calls the classes that it tells apart."""
    if origin.kind == "checkpoint":
        return read_text_facts(origin.folder.path).names
    return read_classes(origin.folder.path) if origin.kind == "folder" else ()


def refuse_ladder(request: BuildRequest, student: "TextOrigin", *, fits: bool) -> None:
    """A ladder that a network that reads text cannot be.

    Raises:
        InputError: `ladder-kind` (not of early exits, or of a network without classes), `ladder-precision`, `exit-layer`.
    """
    wish, name = request.adaptive, request.model.name
    if wish is None:
        return
    given = (("resolution" in wish.kinds or wish.resolutions_px, "--adaptive resolution"), (wish.route_to, "--route-to"))
    other = next((option for asked, option in given if asked), None)
    if other is not None:
        raise InputError(
            f"{name} reads text: {other} is for networks that look at images",
            where=other.split()[0],
            fix="use --adaptive exits: a text stops at the first layer that is sure enough",
            code="ladder-kind",
        )
    if request.task == EMBEDDING or not (fits or tells_classes_apart(student)):
        raise InputError(
            f"{name} gives embeddings, which have no margin that says whether an early answer will do",
            where="--adaptive",
            fix="leave --adaptive out, or give --data with labels, so that it is fitted to classes",
            code="ladder-kind",
        )
    if request.precisions != ("int8",):
        raise InputError(
            f"a ladder is INT8, not {', '.join(request.precisions)}",
            where="--adaptive",
            fix="leave --precision out, or leave --adaptive out",
            code="ladder-precision",
        )
    exit_layers(student.config().layers, wish.exits_after)


def refuse_task(request: BuildRequest, student: "TextOrigin", *, fits: bool) -> None:
    """A task that the network would not have in the end.

    Raises:
        InputError: `task`.
    """
    if request.task is None:
        return
    classifies = fits or tells_classes_apart(student)
    if request.task == EMBEDDING and classifies:
        told = "training gives it classes" if fits else "it tells classes apart"
        fix = "leave out --epochs and --teacher" if fits else f"--task {CLASSIFICATION}, or give weights without a head"
    elif request.task == CLASSIFICATION and not classifies:
        told, fix = "it has no classes and is not trained", "give --data with labels, and no --epochs 0"
    else:
        return
    raise InputError(f"{request.model.name} cannot be built for {request.task}: {told}", where="--task", fix=fix, code="task")


def tokens_of(request: BuildRequest, student: "TextOrigin") -> tuple[int, ...]:
    """Lengths to build for: the user's, or those of the model that its network can read.

    Raises:
        InputError: `text-buckets`; the user's are longer than the network reads.
    """
    positions, spec = student.config().positions, request.model.spec
    if list(request.tokens) != sorted(set(request.tokens)) or min(request.tokens, default=2) < 2:
        raise InputError(
            f"lengths {request.tokens} do not ascend from at least 2",
            where="--tokens",
            fix="give for example 16,32,64,128",
            code="text-buckets",
        )
    if not request.tokens:
        return tuple(n for n in (spec.tokens if spec is not None else ()) if n <= positions) or (positions,)
    if request.tokens[-1] > positions:
        fitting = [n for n in request.tokens if n <= positions] or [positions]
        raise InputError(
            f"texts of {request.tokens[-1]} tokens are longer than the network reads: {positions}",
            where="--tokens",
            fix=f"--tokens {','.join(map(str, fitting))}",
            code="text-buckets",
        )
    return request.tokens


def refuse_teacher(student: "TextOrigin", teacher: "TextOrigin", classes: tuple[str, ...], *, tokens: int) -> None:
    """A teacher that cannot teach this student, before either is trained.

    Raises:
        InputError: `teacher-tokens` (another vocabulary), `teacher-classes` (fitted to other ones), `text-buckets`.
    """
    own, other = _tokenizer(student), _tokenizer(teacher)
    if (own.vocabulary, own.facts) != (other.vocabulary, other.facts):
        raise InputError(
            f"the teacher {teacher.name} reads other tokens than {student.name}",
            where="--teacher",
            fix="name a teacher with the same vocabulary, such as another network of BERT's uncased one",
            code="teacher-tokens",
        )
    if tokens > teacher.config().positions:
        raise InputError(
            f"texts of {tokens} tokens are longer than the teacher {teacher.name} reads: {teacher.config().positions}",
            where="--teacher",
            fix=f"--tokens {teacher.config().positions}, or name another teacher",
            code="text-buckets",
        )
    if teacher.kind != "checkpoint":  # it is fitted to the classes of the data first
        return
    facts = read_text_facts(teacher.folder.path)
    if facts.names != classes and (facts.names or facts.classes != len(classes)):
        told = f"{facts.classes} classes" if facts.classes != len(classes) else "other classes"
        raise InputError(
            f"the teacher {teacher.name} tells {told} apart, the data has {len(classes)}: {', '.join(classes[:3])} ...",
            where="--teacher-weights",
            fix="fit the teacher to this data first, or leave --teacher-weights out",
            code="teacher-classes",
        )


def refuse_unlabelled(wish: Compression) -> None:
    """Unlabelled texts that cannot be read.

    Raises:
        InputError: see `open_texts`.
    """
    from edgekit.build.data import open_texts

    if wish.unlabelled is not None:
        open_texts(wish.unlabelled, labelled=False)


def _tokenizer(origin: "TextOrigin") -> "Tokenizer":
    from edgekit.build.text.checkpoint import TOKENIZER
    from edgekit.build.text.tokenizer import open_tokenizer

    folder = origin.folder.path
    return open_tokenizer(folder / TOKENIZER if origin.kind == "checkpoint" else folder)

"""What networks that look at images and networks that read text do not have in common; nothing slow is imported."""

import json
from pathlib import Path

from edgekit.build.compression import Compression
from edgekit.build.model_source import ModelSource
from edgekit.spec.errors import InputError
from edgekit.spec.model import TEXT_TASKS

__all__ = ["refuse_checkpoint_of_another_kind", "refuse_teacher_of_another_kind", "refuse_text_options"]

_FACTS = "model.json"


def refuse_text_options(model: ModelSource, *, task: str | None, tokens: tuple[int, ...], precisions: tuple[str, ...]) -> None:
    """Options of networks that read text for one that does not.

    Raises:
        InputError: `argument`.
    """
    if model.reads_text:
        return
    only = [name for name in precisions if name.startswith("int8-")]
    for given, option in ((task, "--task"), (tokens, "--tokens"), (only, f"--precision {','.join(only)}")):
        if given:
            raise InputError(
                f"{model.name} looks at images: {option} is for networks that read text",
                where=option.split()[0],
                fix=f"leave {option} out",
                code="argument",
            )


def refuse_teacher_of_another_kind(model: ModelSource, wish: Compression) -> None:
    """A teacher that sees something else than the student.

    Raises:
        InputError: `teacher-kind`.
    """
    if wish.teacher is None or wish.teacher.model.reads_text == model.reads_text:
        return
    what, other = _verbs(model)
    raise InputError(
        f"{model.name} {what}, the teacher {wish.teacher.model.name} {other}",
        where="--teacher",
        fix=f"name a teacher that {what}, see: edgekit models",
        code="teacher-kind",
    )


def refuse_checkpoint_of_another_kind(model: ModelSource, weights: Path | None, *, option: str = "--weights") -> None:
    """A checkpoint of `edgekit fit` whose network sees something else; what is no checkpoint is left to whoever reads it.

    Raises:
        InputError: `weights`.
    """
    try:
        facts = None if weights is None else json.loads((weights / _FACTS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    if not isinstance(facts, dict) or ("task" not in facts and "resolution_px" not in facts):
        return
    if (facts.get("task") in TEXT_TASKS) != model.reads_text:
        what, other = _verbs(model)
        raise InputError(
            f"{model.name} {what}, the checkpoint's network {other}",
            where=option,
            fix=f"name a checkpoint of {model.name}, or its network with --model",
            code="weights",
        )


def _verbs(model: ModelSource) -> tuple[str, str]:
    """What a network does, and what it does not."""
    return ("reads text", "looks at images") if model.reads_text else ("looks at images", "reads text")

"""The model: what is known of a network before its code is run.

A family file, such as `models/efficientnet_lite.py`, holds `make(name)` and a literal `SPECS = {name: {field: value}}`.
The literal is read without running the file, so listing models imports no torch.
"""

import ast
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgekit.spec import codec
from edgekit.spec.errors import InputError

__all__ = ["TEXT_TASKS", "ModelSpec", "WeightsSource", "specs_from_file"]

FILTERS = ("bilinear", "bicubic")

TEXT_TASKS = ("text-classification", "sentence-embedding")
"""What networks do that read text: tell classes apart, or give a vector of unit length whose products say how alike texts are."""


@dataclass(frozen=True, slots=True)
class WeightsSource:
    """Trained weights inside an installed package.

    Attributes:
        package: the distribution that is installed to get them.
        module: the import package they lie in.
        file: path below that package.
    """

    package: str
    module: str
    file: str


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One network.

    Attributes:
        name: what the user types.
        family: the file that makes it.
        task: what it does: `image-classification`, `text-classification` or `sentence-embedding`.
        classes: number of outputs; 0 where the data or the weights decide.
        resolution_px: side of the square input it was trained for; 0 for text.
        mean: per channel, in pixel units (0..255); empty for text.
        std: per channel, in pixel units; empty for text.
        tokens: lengths of text, in tokens, that it is built for, ascending; empty for images.
        labels: name of a label list that the builder knows, such as `imagenet`; None if the classes have no names.
        resolutions_px: other sides it can be built for, ascending.
        crop_fraction: side of the crop over the shorter side of the resized image.
        filter: `bilinear` or `bicubic`.
        weights: where trained weights are; None for random ones.
        teacher: name of a larger model to learn from; None if there is none.
        exits_after: modules after which an early exit may sit.
        license: of the weights.
        description: one line for the list of models.
    """

    name: str
    family: Path
    task: str
    classes: int = 0
    resolution_px: int = 0
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    tokens: tuple[int, ...] = ()
    labels: str | None = None
    resolutions_px: tuple[int, ...] = ()
    crop_fraction: float = 0.875
    filter: str = "bilinear"
    weights: WeightsSource | None = None
    teacher: str | None = None
    exits_after: tuple[str, ...] = ()
    license: str = ""
    description: str = ""

    @property
    def reads_text(self) -> bool:
        """Whether its input is text."""
        return self.task in TEXT_TASKS

    def resize_px(self, resolution_px: int) -> int:
        """Shorter side of the resized image from which a crop of `resolution_px` is cut."""
        # The small term undoes quotients such as 224 / 0.7 = 319.99999999999994.
        return max(resolution_px, math.floor(resolution_px / self.crop_fraction + 1e-6))


def specs_from_file(path: Path) -> tuple[ModelSpec, ...]:
    """The models of one family file, in its order, without running it.

    Raises:
        InputError: `model-spec`; no Python, no literal SPECS, or a field that is missing, unknown or out of range.
    """
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    except (OSError, UnicodeDecodeError, SyntaxError, ValueError) as error:
        raise InputError(f"cannot read models: {error}", where=str(path), fix="mend the file", code="model-spec") from error
    specs = _literal(tree, path)
    return tuple(_spec(name, fields, path) for name, fields in specs.items())


def _literal(tree: ast.Module, path: Path) -> Mapping[Any, Any]:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        if not any(isinstance(t, ast.Name) and t.id == "SPECS" for t in targets):
            continue
        try:
            value = ast.literal_eval(node.value)  # type: ignore[attr-defined]
        except (ValueError, TypeError, SyntaxError) as error:
            what = f"SPECS is not a literal: {error}"
            raise InputError(what, where=f"{path}:{node.lineno}", fix="write plain values", code="model-spec") from error
        if isinstance(value, dict):
            return value
    raise InputError("no SPECS = {name: {...}}", where=str(path), fix="see docs/add-a-model.md", code="model-spec")


def _spec(name: Any, fields: Any, path: Path) -> ModelSpec:
    def fail(what: str, where: str) -> InputError:
        return InputError(what, where=f"{path}: {where}", fix="see docs/add-a-model.md", code="model-spec")

    where = f"SPECS[{name!r}]"
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise fail("a model's name is lower case, digits, _ and -", where)
    if not isinstance(fields, Mapping):
        raise fail("expected a dict of fields", where)
    for taken in ("name", "family"):
        if taken in fields:
            raise fail(f"field {taken!r} follows from the file", where)
    spec = codec.from_json(ModelSpec, {**fields, "name": name, "family": path}, where=where, fail=fail, strict=True)
    for field, fine in _text_ranges(spec) if spec.reads_text else _image_ranges(spec):
        if not fine:
            raise fail(f"{getattr(spec, field)!r} is out of range", f"{where}.{field}")
    return spec


def _image_ranges(spec: ModelSpec) -> tuple[tuple[str, bool], ...]:
    return (
        ("classes", spec.classes >= 1),
        ("resolution_px", spec.resolution_px >= 1),
        ("resolutions_px", _ascends(spec.resolutions_px)),
        ("crop_fraction", 0 < spec.crop_fraction <= 1),
        ("filter", spec.filter in FILTERS),
        ("mean", len(spec.mean) == 3),
        ("std", len(spec.std) == 3 and all(s > 0 for s in spec.std)),
        ("tokens", not spec.tokens),
    )


def _text_ranges(spec: ModelSpec) -> tuple[tuple[str, bool], ...]:
    return (
        ("classes", spec.classes >= 0),
        ("tokens", bool(spec.tokens) and _ascends(spec.tokens)),
        ("resolution_px", not spec.resolution_px),
        ("mean", not spec.mean),
        ("std", not spec.std),
    )


def _ascends(values: tuple[int, ...]) -> bool:
    return all(value >= 1 for value in values) and list(values) == sorted(set(values))

"""The JSON Schemas of this package. The library that reads them is imported only when one is applied."""

import functools
import json
from importlib import resources
from typing import Any

from edgekit.spec.codec import Fail

__all__ = ["NAMES", "apply_schema", "load_schema"]

NAMES = ("bundle", "report", "target")


@functools.cache
def load_schema(name: str) -> Any:
    """The schema `bundle`, `report` or `target` as JSON values; not to be changed."""
    return json.loads(resources.files(__package__).joinpath(f"{name}.schema.json").read_text(encoding="utf-8"))


def apply_schema(name: str, data: Any, *, where: str, fail: Fail) -> None:
    """Refuse `data` that breaks the schema.

    Raises:
        EdgekitError: from `fail`, for the error deepest in `data`.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    error = best_match(Draft202012Validator(load_schema(name)).iter_errors(data))
    if error is not None:
        raise fail(error.message[:300], where + error.json_path.removeprefix("$"))

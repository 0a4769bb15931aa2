"""Dataclasses <-> plain JSON values, checked by the dataclass's own annotations."""

import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from edgekit.spec.errors import EdgekitError

__all__ = ["OMIT_DEFAULT", "UNWRITTEN", "Fail", "from_json", "parse_json", "to_json"]

T = TypeVar("T")
Fail = Callable[[str, str], EdgekitError]
"""(what, where) -> the error to raise: the caller knows the file, the code and the fix."""

MAX_INTEGER_DIGITS = 18

OMIT_DEFAULT = "omit-default"
"""Key of a field's metadata: true where a value equal to the default is not written."""

UNWRITTEN = types.MappingProxyType({OMIT_DEFAULT: True})
"""Metadata of fields that came later: at their default they are not written, so that a file without them keeps its bytes."""


def to_json(value: Any) -> Any:
    """A dataclass tree -> plain JSON values; tuples become lists, fields with `OMIT_DEFAULT` at their default are left out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        held = [(f, getattr(value, f.name)) for f in dataclasses.fields(value)]
        return {f.name: to_json(item) for f, item in held if not (f.metadata.get(OMIT_DEFAULT) and item == f.default)}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    return value


def from_json(cls: type[T], data: Any, *, where: str, fail: Fail, strict: bool = False) -> T:
    """Plain JSON values -> dataclass `cls`.

    Args:
        cls: a dataclass whose fields are strings, numbers, flags, dataclasses, tuples and mappings of strings.
        data: what the JSON or YAML file held.
        where: path of `data` in the file, for messages.
        fail: makes the error.
        strict: refuse unknown fields instead of ignoring them.

    Raises:
        EdgekitError: from `fail`; a field is missing, unknown (`strict`) or of another type; `where` leads to it.
    """
    if not isinstance(data, Mapping):
        raise _mismatch(where, "an object", data, fail)
    hints = _hints(cls)  # type: ignore[arg-type]
    values = {}
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        if field.name in data:
            values[field.name] = _convert(hints[field.name], data[field.name], f"{where}.{field.name}", fail=fail, strict=strict)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise fail(f"field {field.name!r} is missing", where)
    unknown = sorted(str(key) for key in data if key not in hints)
    if strict and unknown:
        raise fail(f"unknown field {unknown[0]!r}; known: {', '.join(hints)}", where)
    return cls(**values)


def parse_json(data: bytes, *, where: str, fail: Fail) -> Any:
    """UTF-8 bytes -> JSON values, with everything refused that two readers could understand differently.

    Raises:
        EdgekitError: from `fail`; not UTF-8 or JSON, a name twice in one object, NaN or infinity, more than 18 digits.
    """
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_short,
        )
    except UnicodeDecodeError as error:
        raise fail(f"not UTF-8: byte {error.start}", where) from error
    except RecursionError as error:
        raise fail("JSON is nested too deeply", where) from error
    except ValueError as error:
        raise fail(f"not JSON: {error}", where) from error


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _convert(hint: Any, data: Any, where: str, *, fail: Fail, strict: bool) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if data is None:
            return None
        return _convert(next(a for a in args if a is not type(None)), data, where, fail=fail, strict=strict)
    if origin is tuple:
        return _convert_tuple(args, data, where, fail=fail, strict=strict)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return from_json(hint, data, where=where, fail=fail, strict=strict)
    if origin is not None:
        if not isinstance(data, Mapping) or not all(isinstance(v, str) for item in data.items() for v in item):
            raise _mismatch(where, "an object of strings", data, fail)
        return types.MappingProxyType(dict(data))
    wanted = (int, float) if hint is float else (hint,)
    if not isinstance(data, wanted) or (isinstance(data, bool) and hint is not bool):
        raise _mismatch(where, _NAMES.get(hint, hint.__name__), data, fail)
    if isinstance(data, float) and not math.isfinite(data):
        raise _mismatch(where, "a finite number", data, fail)
    return data


_NAMES: Mapping[Any, str] = types.MappingProxyType({str: "a string", int: "an integer", float: "a number", bool: "true or false"})


def _convert_tuple(args: tuple[Any, ...], data: Any, where: str, *, fail: Fail, strict: bool) -> tuple[Any, ...]:
    if not isinstance(data, list | tuple):
        raise _mismatch(where, "an array", data, fail)
    if args[-1] is Ellipsis:
        args = (args[0],) * len(data)
    if len(args) != len(data):
        raise _mismatch(where, f"an array of {len(args)}", data, fail)
    pairs = enumerate(zip(args, data, strict=True))
    return tuple(_convert(hint, item, f"{where}[{i}]", fail=fail, strict=strict) for i, (hint, item) in pairs)


def _mismatch(where: str, wanted: str, data: object, fail: Fail) -> EdgekitError:
    return fail(f"expected {wanted}, found {'null' if data is None else repr(data)[:60]}", where)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"name {next(n for n in names if names.count(n) > 1)!r} occurs twice in one object")
    return values


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"number {text[:30]} is too large")
    return value


def _short(text: str) -> int:
    if len(text.lstrip("-")) > MAX_INTEGER_DIGITS:
        raise ValueError(f"integer {text[:30]} is too large")
    return int(text)

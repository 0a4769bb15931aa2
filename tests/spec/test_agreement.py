"""Dataclasses and schemas say the same: every field is a property, every property a field, and the required ones agree."""

import dataclasses
import types
import typing

import jsonschema
import pytest

from edgekit.spec import manifest, report, target
from edgekit.spec.schema import NAMES, load_schema

ROOTS = (("bundle", manifest.Manifest), ("report", report.Report), ("target", target.TargetProfile))


def parts(hint):
    """All dataclasses inside a type hint."""
    if dataclasses.is_dataclass(hint):
        yield hint
        for inner in typing.get_type_hints(hint).values():
            yield from parts(inner)
    for inner in typing.get_args(hint):
        yield from parts(inner)


PAIRS = [(name, root, cls) for name, root in ROOTS for cls in dict.fromkeys(parts(root))]


def schema_of(name, root, cls):
    schema = load_schema(name)
    return schema if cls is root else schema["$defs"][cls.__name__]


@pytest.mark.parametrize("name", NAMES)
def test_schemas_are_valid(name):
    jsonschema.Draft202012Validator.check_schema(load_schema(name))


@pytest.mark.parametrize(("name", "root", "cls"), PAIRS, ids=lambda v: getattr(v, "__name__", v))
def test_fields_and_properties(name, root, cls):
    schema = schema_of(name, root, cls)
    assert set(schema["properties"]) == {f.name for f in dataclasses.fields(cls)}
    assert set(schema["required"]) == {f.name for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING}


@pytest.mark.parametrize(("name", "root", "cls"), PAIRS, ids=lambda v: getattr(v, "__name__", v))
def test_null_is_where_none_is(name, root, cls):
    """A field takes null if, and only if, its annotation has None."""
    for field, hint in typing.get_type_hints(cls).items():
        optional = typing.get_origin(hint) in (typing.Union, types.UnionType) and type(None) in typing.get_args(hint)
        schema = {"$defs": load_schema(name).get("$defs", {}), **schema_of(name, root, cls)["properties"][field]}
        assert jsonschema.Draft202012Validator(schema).is_valid(None) == optional, field


@pytest.mark.parametrize(("name", "root", "cls"), PAIRS, ids=lambda v: getattr(v, "__name__", v))
def test_types_agree(name, root, cls):
    """Of plain values of each JSON type, the schema takes none that the annotation does not have."""
    for field, hint in typing.get_type_hints(cls).items():
        schema = {"$defs": load_schema(name).get("$defs", {}), **schema_of(name, root, cls)["properties"][field]}
        kinds = {inner for inner in (*typing.get_args(hint), hint) if isinstance(inner, type)}
        validator = jsonschema.Draft202012Validator(schema)
        for value, types_ in (("x", {str}), (1.5, {float}), (True, {bool})):
            if validator.is_valid(value):
                assert types_ & kinds, (field, value)


def test_every_definition_is_a_dataclass():
    for name, root in ROOTS:
        known = {cls.__name__ for cls in parts(root)}
        objects = {key for key, value in load_schema(name).get("$defs", {}).items() if value.get("type") == "object"}
        assert objects <= known


@pytest.mark.parametrize(("name", "root", "cls"), PAIRS, ids=lambda v: getattr(v, "__name__", v))
def test_dataclasses_are_frozen_and_slotted(name, root, cls):
    assert cls.__dataclass_params__.frozen
    assert hasattr(cls, "__slots__")
    for hint in typing.get_type_hints(cls).values():
        assert typing.get_origin(hint) not in (list, dict)

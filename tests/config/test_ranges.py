"""Every setting of every schema states what it takes, whatever group it belongs to."""

import math
import typing
from collections.abc import Iterator
from dataclasses import Field, fields, is_dataclass
from typing import Any

import pytest

from repro.config import ConfigError
from repro.config.schema import RunConfig
from repro.config.schema.checks import check_fields
from repro.config.schema.registry import registered_schemas

SENSELESS = {float: (math.nan, math.inf, -math.inf, -1.0, 1e300), int: (-1, 2**80)}
PATHS = ("", ".", "..", "../x", "a/b", "/x", "a\\b", "a\0b", "a\nb", "x" * 101)
PATH_SETTINGS = {"corpus", "release", "treebank", "languages", "source", "target"}


def reachable(node: type) -> Iterator[type]:
    """A schema and the dataclasses in its fields."""
    yield node
    for hint in typing.get_type_hints(node).values():
        for inner in (hint, *typing.get_args(hint)):
            if is_dataclass(inner):
                yield from reachable(typing.cast(type, inner))


SCHEMAS = {
    schema.__name__: schema
    for options in ({"run": {"run": RunConfig}} | registered_schemas()).values()
    for root in options.values()
    for schema in reachable(root)
}


def settings(*kinds: type) -> list[Any]:
    """Every field that holds values of these types, alone, in a list or beside null."""
    return [
        pytest.param(schema, declared, kind, id=f"{name}.{declared.name}")
        for name, schema in SCHEMAS.items()
        for declared in fields(schema)
        for kind in kinds
        if kind in _leaves(typing.get_type_hints(schema)[declared.name])
    ]


def _leaves(hint: Any) -> set[Any]:
    found = {hint}
    for inner in typing.get_args(hint):
        found |= _leaves(inner)
    return found


def refuses(schema: type, declared: Field[Any], value: Any) -> bool:
    """Return whether one value of a field is refused, all other fields being left out."""
    is_list = typing.get_origin(typing.get_type_hints(schema)[declared.name]) is list
    node = object.__new__(schema)
    for other in fields(schema):
        object.__setattr__(node, other.name, None)
    object.__setattr__(node, declared.name, [value] if is_list else value)
    try:
        check_fields(node)
    except ConfigError:
        return True
    return False


@pytest.mark.parametrize(("schema", "declared", "kind"), settings(int, float))
def test_senseless_numbers_are_refused(schema, declared, kind):
    accepted = [value for value in SENSELESS[kind] if not refuses(schema, declared, value)]
    assert accepted == []


def test_the_walk_sees_every_kind_of_schema():
    assert {"FertilityConfig", "ScheduleConfig", "RunConfig", "TrainingConfig"} <= SCHEMAS.keys()
    assert len(settings(int, float)) > 70


PATH_FIELDS = [
    case
    for case in settings(str)
    if case.id == "ScaleConfig.name" or case.id.split(".")[1] in PATH_SETTINGS
]


@pytest.mark.parametrize(("schema", "declared", "kind"), PATH_FIELDS)
def test_settings_that_become_paths_refuse_to_leave_their_folder(schema, declared, kind):
    assert [value for value in PATHS if not refuses(schema, declared, value)] == []


def test_every_path_setting_is_found():
    assert {case.id.split(".")[1] for case in PATH_FIELDS} == {*PATH_SETTINGS, "name"}

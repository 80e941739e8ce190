"""Dataclasses from the content of JSON and YAML files, whose fields must have their types."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from repro.errors import meant

T = TypeVar("T")
_WORDS = {
    str: "a text",
    int: "an integer",
    float: "a finite number",
    bool: "true or false",
    dict: "a mapping",
    list: "a list",
}
_TOO_LARGE = 1e308
"""Largest integer accepted for a float; converting a larger one may overflow."""


def build(kind: type[T], content: Mapping[str, Any]) -> T:
    """Create a dataclass from a mapping of its fields; those with a default may be left out.

    Fields may be dataclasses themselves, or lists and mappings of them.

    Raises:
        ValueError: a field is missing, unknown or of the wrong type; the message names it.
    """
    built: T = _built("", kind, content)
    return built


def check(kind: type, content: Mapping[str, Any]) -> None:
    """Check that values, keyed by field name, have the types of a dataclass.

    Raises:
        ValueError: a value has the wrong type, or is a number that is not finite.
    """
    for name, wanted in _hints(kind).items():
        _built(f"field {name!r}", wanted, content[name])


_hints = cache(get_type_hints)


@cache
def _required(kind: Any) -> frozenset[str]:
    """Return the names of the fields without a default."""
    defaults = ((one.name, one.default, one.default_factory) for one in fields(kind))
    return frozenset(name for name, *values in defaults if values == [MISSING, MISSING])


def _built(place: str, kind: Any, value: Any) -> Any:
    """Convert a value to a type: mappings to dataclasses, integers to floats."""
    if kind is Any:
        return value
    parts, null = get_args(kind), ""
    if type(None) in parts:
        if value is None:
            return None
        kind, null = parts[0], " or null"
        parts = get_args(kind)
    wanted = dict if is_dataclass(kind) else get_origin(kind) or kind
    holds = type(value) is wanted
    if wanted is float:
        holds = type(value) in (int, float) and abs(value) < _TOO_LARGE  # false for NaN
    if not holds:
        raise ValueError(f"{place} is {value!r}; expected {_WORDS[wanted]}{null}".strip())
    if is_dataclass(kind):
        assert isinstance(kind, type)
        hints, required = _hints(kind), _required(kind)
        missing, unknown = sorted(required - value.keys()), sorted(value.keys() - hints, key=str)
        if missing or unknown:
            where = f"{place}: " if place else ""
            lacking = f"missing {', '.join(missing)}" if missing else ""
            wrong = [f"unknown key {name!r}{meant(str(name), hints)}" for name in unknown]
            raise ValueError(where + "; ".join(filter(None, [*wrong, lacking])))
        values = {
            name: _built(f"{place}.{name}" if place else f"field {name!r}", hints[name], item)
            for name, item in value.items()
        }
        return kind(**values)
    if wanted is dict:
        keys = [_built(f"a key of {place}", parts[0], key) for key in value]
        items = (_built(f"{place}[{key!r}]", parts[1], item) for key, item in value.items())
        return dict(zip(keys, items, strict=True))
    if wanted is list:
        return [_built(f"{place}[{k}]", parts[0], item) for k, item in enumerate(value)]
    return float(value) if wanted is float else value

"""Declarations of settings: each field states which values it takes; one function checks them."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, is_dataclass
from math import inf, isfinite
from typing import Any, TypeVar, cast, get_args

from omegaconf import MISSING

from repro.config.errors import ConfigError

_ACCEPTS = "accepts"
PartT = TypeVar("PartT")
_LARGEST_INT = 2**31 - 1
_LEAST, _LARGEST = 1.18e-38, 3.4e38
"""Normal magnitudes of single precision: in a model, others may become zero or infinite."""


@dataclass(frozen=True)
class Accepts:
    """Constraint on a setting; a list needs at least one value, and all of them are checked."""

    holds: Callable[[Any], bool]  # returns whether a value is accepted
    expected: str  # the accepted values in words, for messages
    distinct: bool = False  # whether the values of a list must be distinct
    unbounded: bool = False  # whether `expected` omits the limits of number formats


def number(interval: str, default: Any = MISSING, *, even: bool = False) -> Any:
    """Declare a number, or a list of numbers.

    Args:
        interval: such as ``"[0, 1)"``; ``"(0, inf)"`` is any finite number above zero.
        default: value of the field; required if left out.
        even: accept even numbers only.
    """
    parsed = re.fullmatch(r"([\[(])(\S+), (\S+)([\])])", interval)
    assert parsed is not None, interval
    low, high = float(parsed[2]), float(parsed[3])
    low_closed, high_closed = parsed[1] == "[", parsed[4] == "]"

    def holds(value: float) -> bool:
        above = value >= low if low_closed else value > low
        below = value <= high if high_closed else value < high
        return above and below and not (even and value % 2) and (high < inf or _is_held(value))

    kind = "an even number" if even else "a number"
    expected = f"{kind} in {interval}"
    if high == inf:
        expected = f"{kind} {'>=' if low_closed else '>'} {parsed[2]}"
    return _declared(default, Accepts(holds, expected, unbounded=high == inf))


def choice(options: Iterable[str], default: Any = MISSING) -> Any:
    """Declare a setting that must be one of the options."""
    options = tuple(options)
    expected = "one of " + ", ".join(map(str, options))
    return _declared(default, Accepts(options.__contains__, expected))


def identifier(default: Any = MISSING) -> Any:
    """Declare a string, or a list of distinct strings, that may become part of a path."""
    accepts = Accepts(
        lambda value: re.fullmatch(r"\w[\w.-]{0,99}", value) is not None,
        "a name of letters, digits, '_', '-', '.' (at most 100)",
        distinct=True,
    )
    return _declared(default, accepts)


def folder() -> Any:
    """Declare a folder; ``null`` stands for a default that is set when a run is resolved."""
    return _declared(None, Accepts(lambda value: bool(value.strip()), "a folder"))


def part_of(kind: type[PartT], node: object) -> PartT:
    """Copy the fields of a base class of a configuration into an object of that class."""
    assert is_dataclass(kind)
    return cast(PartT, kind(**{f.name: getattr(node, f.name) for f in fields(kind)}))


def check_fields(node: Any, path: str = "") -> None:
    """Check values against what the fields of a configuration declare, at any depth.

    Numbers must be finite whatever the field declares.

    Args:
        node: a dataclass whose fields are declared by the functions of this module.
        path: prefix of the names of its fields in keys, for example ``"model."``.

    Raises:
        ConfigError: a value is refused; names the key, the value and what is accepted.
    """
    for declared in fields(node):
        value, key = getattr(node, declared.name), f"{path}{declared.name}"
        if is_dataclass(value):
            check_fields(value, f"{key}.")
        elif isinstance(value, dict):
            for part, inner in value.items():
                check_fields(inner, f"{key}.{part}.")
        elif value is not None:
            accepts = declared.metadata.get(_ACCEPTS, _NUMBER)
            null = ", or null" if type(None) in get_args(declared.type) else ""
            for one in value if isinstance(value, list) else [value]:
                expected = accepts.expected
                if isinstance(one, float) and not isfinite(one):
                    expected = expected.replace("number", "finite number")
                elif accepts.unbounded and not _is_held(one):
                    expected += " of single precision" if isinstance(one, float) else " of 32 bits"
                _require(accepts.holds(one), key, one, expected + null)
            if isinstance(value, list) and accepts is not _NUMBER:
                _require(bool(value), key, value, f"at least one value{null}")
                once = not accepts.distinct or len(value) == len(set(value))
                _require(once, key, value, f"each value once{null}")


def _is_held(value: Any) -> bool:
    """Return whether single precision or 32 bits can represent a value; True for non-numbers."""
    if isinstance(value, float):
        return value == 0 or _LEAST <= abs(value) <= _LARGEST  # false for NaN
    return not isinstance(value, int) or abs(value) <= _LARGEST_INT


_NUMBER = Accepts(_is_held, "a number", unbounded=True)
"""Constraint on fields that declare none."""


def _declared(default: Any, accepts: Accepts) -> Any:
    metadata = {_ACCEPTS: accepts}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def _require(condition: bool, key: str, value: object, expected: str) -> None:
    if not condition:
        raise ConfigError(f"{key} is {value!r}; expected {expected}")

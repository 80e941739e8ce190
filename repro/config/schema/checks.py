"""What schemas check their values with, and what they tell a run's identity about a field."""

from collections.abc import Iterable
from dataclasses import field
from typing import Any

from repro.config.errors import ConfigError

LATE = "late"


def require(condition: bool, key: str, value: object, expected: str) -> None:
    """Refuse a value.

    Raises:
        ConfigError: the condition does not hold; names the key, the value and what it takes.
    """
    if not condition:
        raise ConfigError(f"{key} is {value!r}; expected {expected}")


def require_choice(key: str, value: str, choices: Iterable[str]) -> None:
    """Refuse a value that is none of the choices."""
    choices = tuple(choices)
    require(value in choices, key, value, "one of " + ", ".join(choices))


def late(default: Any) -> Any:
    """A field that came after runs had been recorded.

    While it holds its default, which means what the package did before, the identity of a run
    leaves it out, so that recorded runs keep their names.
    """
    return field(default=default, metadata={LATE: True})

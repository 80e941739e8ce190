"""The error that every refused setting raises."""

from repro.errors import UserError


class ConfigError(UserError, ValueError):
    """A setting is unknown, missing or out of range; the message names it and what it takes."""

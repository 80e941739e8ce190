"""The error that every unreadable or missing corpus raises."""

from repro.errors import UserError


class DataError(UserError, ValueError):
    """A corpus is missing, incomplete or malformed; the message names the file and the remedy."""

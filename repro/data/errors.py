"""Error that every unreadable or missing corpus raises."""

from repro.errors import UserError


class DataError(UserError, ValueError):
    """Raised when a corpus is missing or malformed; the message names the file and the remedy."""

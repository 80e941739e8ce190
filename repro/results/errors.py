"""Exception raised for damaged or missing results."""

from repro.errors import UserError


class ResultsError(UserError, ValueError):
    """A result is missing, damaged or ambiguous; the message names the file and what is wrong."""

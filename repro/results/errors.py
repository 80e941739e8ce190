"""The error that every damaged or missing result raises."""

from repro.errors import UserError


class ResultsError(UserError, ValueError):
    """A result is missing, damaged or ambiguous; the message names the file and what is wrong."""

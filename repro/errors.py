"""Errors that the command line shows as one line instead of a traceback."""


class UserError(Exception):
    """Error that the user can correct; the message says what was expected."""


class DataError(UserError, ValueError):
    """Raised when a corpus is missing or malformed; the message names the file and the remedy."""


class ResultsError(UserError, ValueError):
    """A result is missing, damaged or ambiguous; the message names the file and what is wrong."""

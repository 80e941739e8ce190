"""Errors that the command line shows as one line instead of a traceback."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Error that the user can correct; the message says what was expected."""


class DataError(UserError, ValueError):
    """Raised when a corpus is missing or malformed; the message names the file and the remedy."""


class ResultsError(UserError, ValueError):
    """A result is missing, damaged or ambiguous; the message names the file and what is wrong."""


def meant(name: str, choices: Iterable[str]) -> str:
    """Return a hint ``did you mean`` for an unknown name; empty if no choice is similar."""
    near = difflib.get_close_matches(name.lower(), [*choices], n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def require_utf8(text: str) -> None:
    """Refuse text with bytes that were not decoded: no file or stream in UTF-8 can take it.

    Raises:
        UserError: the text is an argument or a path that is not UTF-8.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise UserError(f"{text!r} is not UTF-8") from None

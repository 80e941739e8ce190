"""Errors that the command line shows as one line instead of a traceback, and text to show."""

import difflib
import logging
import re
import sys
from collections.abc import Iterable
from typing import Any

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that command a terminal or change the direction of text; not TAB and line feed."""


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


def refused_option(option: str, command: str) -> str:
    """Say that a command has no such option, and how a setting is written."""
    typed = option.partition("=")[0][:40]
    key = typed.removeprefix("--") if typed.startswith("--") else "KEY"
    return f"no option {typed}; a setting is {key}=VALUE, and repro {command} --help lists options"


def say(text: str) -> None:
    """Print a line on standard error, unless ``-q`` asks for failures only."""
    if logging.getLogger("repro").isEnabledFor(logging.INFO):
        print(text, file=sys.stderr)


def require_utf8(text: str) -> None:
    """Refuse text with bytes that were not decoded: no file or stream in UTF-8 can take it.

    Raises:
        UserError: the text is an argument or a path that is not UTF-8.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise UserError(f"{text!r} is not UTF-8") from None


def visible(value: Any) -> Any:
    r"""Write the control characters of a text, or of every text in JSON values, as ``\x1b``.

    What a stranger's record or run folder holds can thereby neither command a terminal nor make
    text look like another.
    """
    if isinstance(value, str):
        return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), value)
    if isinstance(value, dict):
        return {visible(key): visible(item) for key, item in value.items()}
    return [*map(visible, value)] if isinstance(value, list) else value

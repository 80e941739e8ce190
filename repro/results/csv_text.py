"""Text cells of CSV files, which spreadsheets would otherwise take for formulas."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_ESCAPE = "'"


def escape_formula(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would compute.

    Texts that begin with an apostrophe get another one, so that no text is lost. Numbers are no
    texts: a negative number must not come here.
    """
    return _ESCAPE + text if text.startswith((*_FORMULA, _ESCAPE)) else text


def to_csv(frame: "pd.DataFrame") -> str:
    """Format a table, its text columns escaped."""
    escaped = frame.copy()
    for name in frame.columns:
        values = frame[name]
        escaped[name] = values.map(lambda v: escape_formula(v) if isinstance(v, str) else v)
    return str(escaped.to_csv(index=False, lineterminator="\n"))

"""Colors and line styles of mappings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

DASHES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)))
MARKERS = "soDv"
"""Dashes and markers that distinguish lines of the same color."""


SERIES = ("#1f5f9e", "#c8502f", "#2f8f6b", "#7a4fa3", "#b8860b", "#555555")
"""Colors of series other than mappings, such as the values of a swept setting."""


@dataclass(frozen=True)
class Style:
    """Appearance of the points and lines of a mapping."""

    color: str
    marker: str
    dashes: Any


_DASHED, _DOTTED, _DASH_DOTTED = DASHES[1:]
STYLES = {
    "softmax": Style("#4477aa", "o", _DASHED),
    "sparsemax": Style("#ee6677", "s", "-"),
    "entmax": Style("#228833", "^", "-"),
    "fusedmax": Style("#ccbb44", "s", _DASH_DOTTED),
    "oscarmax": Style("#997700", "o", "-"),
    "sq_pnorm_max": Style("#228833", "d", _DOTTED),
    "csoftmax": Style("#4477aa", "v", _DOTTED),
    "csparsemax": Style("#ee6677", "D", _DOTTED),
    "normmax": Style("#aa3377", "P", _DASH_DOTTED),
    "budget": Style("#66ccee", "X", "-"),
}
"""Styles of the mappings of the papers and of the library, no two with the same color and line."""


def style_of(mapping: str, alpha: float | None = None) -> Style:
    """Return the style of a mapping; α-entmax with α = 1 or 2 has that of softmax or sparsemax.

    Other names have one of :data:`SERIES` and of :data:`DASHES` that depends on the name alone.
    """
    special = {1.0: "softmax", 2.0: "sparsemax"}
    name = special.get(alpha or 0.0, mapping) if mapping == "entmax" else mapping
    line, color = divmod(crc32(name.encode()), len(SERIES))
    return STYLES.get(name) or Style(SERIES[color], "*", DASHES[line % len(DASHES)])


def lines_of(mappings: Mapping[str, Style]) -> dict[str, Style]:
    """Return the styles by label, with other dashes and markers for a repeated color."""
    found: dict[str, Style] = {}
    for label, style in mappings.items():
        taken = [one for one in found.values() if one.color == style.color]
        dashes = (d for d in (style.dashes, *DASHES) if d not in [one.dashes for one in taken])
        markers = (m for m in (style.marker, *MARKERS) if m not in [one.marker for one in taken])
        found[label] = Style(style.color, next(markers, style.marker), next(dashes, style.dashes))
    return found

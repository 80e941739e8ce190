"""Figures to bytes, the same bytes every time: fixed font, fixed identifiers, no dates."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font

FONT = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
PNG_DPI = 160
SPACE = "␣"
INK = "#1b2733"
MUTED_INK = "#667482"


def new_figure(width: float, height: float) -> Figure:
    """An empty white figure of so many inches, independent of any global state."""
    figure = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(figure)
    return figure


@contextmanager
def plain_style() -> Iterator[None]:
    """Matplotlib's own defaults while a figure is made, whatever the user's settings are."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams["svg.hashsalt"] = "repro"
        yield


def svg_bytes(figure: Figure) -> bytes:
    """The figure as SVG, letters drawn as paths."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def png_bytes(figure: Figure) -> bytes:
    """The figure as PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=PNG_DPI, metadata={"Software": None})
    return buffer.getvalue()


def drawable(text: str) -> str:
    """The text as the font can draw it: letters that it lacks as ``U+`` and their code."""
    known = _known_letters()
    return "".join(letter if ord(letter) in known else f"U+{ord(letter):04X}" for letter in text)


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Inches that a text of so many points takes."""
    font = _font("DejaVuSans-Bold.ttf" if bold else FONT.name)
    font.set_size(100, 72)  # so large that rounding to whole pixels does not count
    font.set_text(text)
    return float(font.get_width_height()[0]) / 64 / 72 * size / 100


def token_label(token: str) -> str:
    """A token for the eye: ``<lang:x>`` and ``<tag:V>`` without their marks, a visible space."""
    for mark in ("<lang:", "<tag:"):
        if token.startswith(mark) and token.endswith(">"):
            return drawable(token[len(mark) : -1])
    return drawable(token.replace(" ", SPACE))


def is_mark(token: str) -> bool:
    """Whether a token names a language or a tag rather than a letter."""
    return token.startswith(("<lang:", "<tag:")) and token.endswith(">")


@cache
def _font(name: str) -> FT2Font:
    return FT2Font(str(FONT.with_name(name)))


@cache
def _known_letters() -> frozenset[int]:
    return frozenset(_font(FONT.name).get_charmap())

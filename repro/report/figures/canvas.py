"""Canvas of a figure: sizes in inches, text as wide as it is drawn, SVG and PNG as output."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font

from repro.report.figures.svg import GRID, INK, MUTED_INK, PAPER, SHADE, Cells, inline_svg

FONT = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
PNG_DPI = 160
SPACE = "␣"

__all__ = [
    "INK",
    "MUTED_INK",
    "PAPER",
    "SHADE",
    "Canvas",
    "drawable",
    "is_mark",
    "plain_axes",
    "plain_style",
    "text_width",
    "token_label",
]


class Canvas(Figure):
    """An empty figure of so many inches, independent of any global state.

    Attributes:
        cells: grids of the heat maps, which SVG shows with the weight of each cell on hovering.
    """

    def __init__(self, width: float, height: float) -> None:
        super().__init__(figsize=(width, height), facecolor=PAPER)
        self.cells: list[Cells] = []
        FigureCanvasAgg(self)

    def svg(self, name: str, description: str = "") -> str:
        """Markup for an HTML page: real text, colours of the page, ids that begin with ``name``.

        Args:
            name: of the artefact, unique within a page.
            description: the figure in words.
        """
        buffer = io.StringIO()
        with plain_style(name):
            self.savefig(buffer, format="svg", dpi=80, transparent=True, metadata={"Date": None})
        return inline_svg(buffer.getvalue(), name, description, self.cells)

    def png(self, **metadata: str) -> bytes:
        """Pixels, on white, with ``metadata`` as text chunks."""
        buffer = io.BytesIO()
        found: dict[str, Any] = {"Software": None, **metadata}
        self.savefig(buffer, format="png", dpi=PNG_DPI, metadata=found)
        return buffer.getvalue()

    def box(self, left: float, bottom: float, width: float, height: float) -> Axes:
        """Axes in a box given in inches from the lower left corner."""
        across, up = self.get_size_inches()
        return self.add_axes((left / across, bottom / up, width / across, height / up))

    def page(self) -> Axes:
        """Invisible axes over the whole figure in inches from the upper left corner."""
        across, up = self.get_size_inches()
        axes = self.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(0, across)
        axes.set_ylim(up, 0)
        return axes

    def write(self, left: float, down: float, text: str, **style: Any) -> None:
        """Write from a place in inches, measured from the upper left corner."""
        across, up = self.get_size_inches()
        self.text(left / across, 1 - down / up, text, **{"color": INK, "va": "top", **style})


@contextmanager
def plain_style(salt: str = "repro") -> Iterator[None]:
    """Matplotlib's own defaults while a figure is made, whatever the user's settings are."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams["svg.hashsalt"] = salt
        matplotlib.rcParams["svg.fonttype"] = "none"
        matplotlib.rcParams["text.parse_math"] = False
        yield


def drawable(text: str) -> str:
    """Replace letters that the font lacks by ``U+`` and their code."""
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
    if is_mark(token):
        return drawable(token.partition(":")[2][:-1])
    return drawable(token.replace(" ", SPACE))


def is_mark(token: str) -> bool:
    """Return whether a token names a language or a tag rather than a letter."""
    return token.startswith(("<lang:", "<tag:")) and token.endswith(">")


def plain_axes(
    axes: Axes, x: str = "", y: str = "", title: str = "", *, grid: bool = False
) -> None:
    """Leave the left and the lower edge; name the axes; write the title above."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(MUTED_INK)
    axes.tick_params(color=MUTED_INK, labelcolor=INK, labelsize=8, length=3)
    axes.set_xlabel(x, fontsize=9, color=INK)
    axes.set_ylabel(y, fontsize=9, color=INK)
    axes.set_title(title, fontsize=10, color=INK)
    if grid:
        axes.grid(color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)


@cache
def _font(name: str) -> FT2Font:
    return FT2Font(str(FONT.with_name(name)))


@cache
def _known_letters() -> frozenset[int]:
    return frozenset(_font(FONT.name).get_charmap())

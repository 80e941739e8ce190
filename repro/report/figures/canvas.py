"""Canvas of a figure: layout in inches, measured text, and output as inline SVG and as PNG."""

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar
from xml.etree import ElementTree

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font

FONT = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
PNG_DPI = 160
MARGIN, WORD_SIZE = 0.15, 8.0
"""Margin of a drawing in inches; font size of the words of a heat map in points."""
SPACE = "␣"
T = TypeVar("T")
INK, MUTED_INK, PAPER = "#1b2733", "#667482", "#ffffff"
GRID, SHADE, FRAME = "#e3e8ec", "#f4f6f8", "#b3bdc7"
WEIGHT = "#08306b"
"""Color of a weight of one; smaller weights are paler."""
FAINTEST = 0.1
"""Opacity of the smallest weights above zero, so that they differ from exact zeros."""
_PAGE_COLORS = {
    INK: "currentColor",
    MUTED_INK: f"var(--figure-muted,{MUTED_INK})",
    PAPER: f"var(--figure-paper,{PAPER})",
    GRID: f"var(--figure-grid,{GRID})",
    FRAME: f"var(--figure-frame,{FRAME})",
    SHADE: f"var(--figure-shade,{SHADE})",
    WEIGHT: f"var(--figure-weight,{WEIGHT})",
}
"""Values that replace colors in SVG, so that figures follow a light or dark page."""
_FONT = "'DejaVu Sans',Verdana,'Bitstream Vera Sans',sans-serif"
"""Font of the layout, then fonts of about its width, then any other."""
_NUMBER = re.compile(r"-?\d+\.\d+")
_REFERENCE = re.compile(r"(^|\()#([\w.-]+)")
_SVG, _XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"


@dataclass(frozen=True)
class Cells:
    """Grid of weights in axes where each cell is one unit wide and high."""

    # ID of the artist that shows the cells as pixels; <gid>-dots marks their zeros. SVG output
    # replaces both by shapes.
    gid: str
    axes: Axes
    weights: Sequence[Sequence[float]]  # one sequence per row
    rows: Sequence[str] = ()  # names, top to bottom; without names nothing is shown on hovering
    columns: Sequence[str] = ()  # names of the columns


class Canvas(Figure):
    """Empty figure with a size in inches, independent of the global state of pyplot.

    Attributes:
        cells: grids of the heat maps, whose cells show their weight on hovering in SVG.
    """

    def __init__(self, width: float, height: float) -> None:
        super().__init__(figsize=(width, height), facecolor=PAPER)
        self.cells: list[Cells] = []
        FigureCanvasAgg(self)

    def svg(self, name: str, description: str = "") -> str:
        """Return SVG for an HTML page, with real text and the colors of the page.

        ``name``, unique within the page, is the prefix of all IDs; ``description`` is the alt text.
        """
        buffer = io.StringIO()
        with plain_style(name):
            self.savefig(buffer, format="svg", dpi=80, transparent=True, metadata={"Date": None})
        return inline_svg(buffer.getvalue(), name, description, self.cells)

    def png(self, **metadata: str) -> bytes:
        """Return a PNG on white, with ``metadata`` as text chunks."""
        buffer = io.BytesIO()
        found: dict[str, Any] = {"Software": None, **metadata}
        with plain_style():
            self.savefig(buffer, format="png", dpi=PNG_DPI, metadata=found)
        return buffer.getvalue()

    def pdf(self) -> bytes:
        """Return a PDF with text, for LaTeX."""
        buffer = io.BytesIO()
        with plain_style():
            self.savefig(buffer, format="pdf", metadata={"CreationDate": None})
        return buffer.getvalue()

    def box(self, left: float, bottom: float, width: float, height: float) -> Axes:
        """Add axes in a box given in inches from the lower left corner."""
        across, up = self.get_size_inches()
        return self.add_axes((left / across, bottom / up, width / across, height / up))

    def page(self) -> Axes:
        """Add invisible axes over the whole figure, in inches from the upper left corner."""
        across, up = self.get_size_inches()
        axes = self.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set(xlim=(0, across), ylim=(up, 0))
        return axes

    def write(self, left: float, down: float, text: str, **style: Any) -> None:
        """Write text at a position in inches from the upper left corner."""
        across, up = self.get_size_inches()
        self.text(left / across, 1 - down / up, text, **{"color": INK, "va": "top", **style})


@contextmanager
def plain_style(salt: str = "repro") -> Iterator[None]:
    """Use Matplotlib's defaults while the block runs, irrespective of the user's settings."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams["svg.hashsalt"] = salt
        matplotlib.rcParams["svg.fonttype"] = "none"
        matplotlib.rcParams["pdf.fonttype"] = 42  # TrueType, which publishers ask for
        matplotlib.rcParams["text.parse_math"] = False
        yield


def drawable(text: str) -> str:
    """Replace characters that the font lacks by ``U+`` and their code point."""
    index = _font(FONT.name).get_char_index  # zero for characters without a glyph
    return "".join(letter if index(ord(letter)) else f"U+{ord(letter):04X}" for letter in text)


@lru_cache(maxsize=2**14)  # a token is measured for each heat map and step that shows it
def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Return the width in inches of a text whose font size is given in points."""
    font = _font("DejaVuSans-Bold.ttf" if bold else FONT.name)
    font.set_size(100, 72)  # so large that rounding to whole pixels is negligible
    font.set_text(text)
    return float(font.get_width_height()[0]) / 64 / 72 * size / 100


def in_lines(items: Sequence[T], width: Callable[[T], float], room: float) -> list[list[T]]:
    """Break a sequence into lines of at most ``room`` inches; an item is never cut."""
    lines: list[list[T]] = [[]]
    left = room
    for item in items:
        if lines[-1] and width(item) > left:
            lines.append([])
            left = room
        lines[-1].append(item)
        left -= width(item)
    return lines


def token_label(token: str) -> str:
    """Return a token as shown: ``x`` for ``<lang:x>``, ``V`` for ``<tag:V>``, visible spaces."""
    if is_mark(token):
        return drawable(token.partition(":")[2][:-1])
    return drawable(token.replace(" ", SPACE))


def is_mark(token: str) -> bool:
    """Return whether a token names a language or a tag rather than a letter."""
    return token.startswith(("<lang:", "<tag:")) and token.endswith(">")


def plain_axes(
    axes: Axes, x: str = "", y: str = "", title: str = "", *, grid: bool = False
) -> None:
    """Hide the right and upper edges, label the axes and set the title."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(MUTED_INK)
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


def opacity(weight: float) -> float:
    """Return the opacity of a cell: 0 for exact zeros, else from ``FAINTEST`` to 1."""
    return FAINTEST + (1 - FAINTEST) * min(weight, 1.0) if weight > 0 else 0.0


def inline_svg(markup: str, name: str, description: str, cells: Sequence[Cells]) -> str:
    """Turn an SVG document of Matplotlib into an element that can be embedded in HTML.

    IDs get the prefix ``name``, style sheets are removed, text uses common fonts and colors follow
    the page. Each cell of a heat map shows its words and its weight on hovering.
    """
    root = ElementTree.fromstring(markup)
    prefix = re.sub(r"\W+", "-", name)
    for child in list(root):
        if child.tag == f"{_SVG}metadata" or child.find(f"{_SVG}style") is not None:
            root.remove(child)
    groups = {element.get("id"): element for element in root.iter(f"{_SVG}g")}
    for grid in cells:
        for name_of_group in (grid.gid, f"{grid.gid}-dots"):
            if name_of_group in groups:
                groups[name_of_group][:] = []
        _fill(groups[grid.gid], grid)
    _prune(root)
    values = (value for element in root.iter() for value in element.attrib.values())
    used = {found[1] for value in values for found in _REFERENCE.findall(value)}
    for element in root.iter():
        own = element.attrib.pop("id", None)
        if own in used:
            element.set("id", f"{prefix}-{own}")
        for key, value in element.attrib.items():
            if key == "style":
                value = re.sub(r"font-family:[^;]*;?\s*|(?<=:|;)\s+", "", value)
                value = re.sub(r"font: ?(?:bold |italic )*bold ", r"font-weight:bold;font: ", value)
                value = re.sub(r"font: ?(?:italic )*([\d.]+)px [^;]*", r"font-size:\1px", value)
                for color, of_page in _PAGE_COLORS.items():
                    value = value.replace(color, of_page)
            if key in ("style", "clip-path", f"{_XLINK}href"):
                value = _REFERENCE.sub(rf"\1#{prefix}-\2", value)
            if key in ("d", "x", "y", "transform", "points", "width", "height", "viewBox"):
                value = _NUMBER.sub(lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), value)
                value = " ".join(value.split())
            element.set(key, value)
    root.attrib.pop("version", None)
    if cells:  # the letters of a heat map in print are too small for a page, which limits the width
        for side in ("width", "height"):
            root.set(side, f"{2 * float(root.attrib[side].removesuffix('pt')):g}pt")
    root.attrib |= {
        "role": "img",
        "aria-label": description,
        "font-family": _FONT,
        "style": f"color:var(--figure-ink,{INK});stroke-linejoin:round;stroke-linecap:butt",
    }
    ElementTree.register_namespace("", _SVG[1:-1])
    ElementTree.register_namespace("xlink", _XLINK[1:-1])
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _fill(group: ElementTree.Element, grid: Cells) -> None:
    """Replace the pixels of a heat map by titled shapes, one per nonzero weight or run of zeros."""
    (left, right), (below, above) = grid.axes.get_xlim(), grid.axes.get_ylim()
    figure = grid.axes.get_figure(root=True)
    assert figure is not None
    box = grid.axes.get_window_extent().transformed(figure.dpi_scale_trans.inverted())
    height = figure.get_size_inches()[1]
    across, down = 72 * box.width / (right - left), 72 * box.height / (below - above)
    x, y = 72 * box.x0, 72 * (height - box.y1)
    group.set("transform", f"translate({x:.2f} {y:.2f})")
    shaded = ElementTree.SubElement(
        group, "g", {"fill": _PAGE_COLORS[WEIGHT], "transform": f"scale({across:.3f} {down:.3f})"}
    )
    zeros = []
    for row, line in enumerate(grid.weights):
        # Neighboring zeros share a shape, which keeps files of sparse heat maps small.
        for _, run in groupby(enumerate(line), lambda cell: cell[0] if cell[1] else None):
            cells = [*run]
            (first, weight), width = cells[0], len(cells)
            d = f"M{first} {row}h{width}v1h-{width}z"
            shape = {"d": d, "fill-opacity": f"{opacity(weight):.3g}"}
            cell = ElementTree.SubElement(shaded, "path", shape)
            if grid.rows:
                last = f" … {grid.columns[cells[-1][0]]}" if width > 1 else ""
                words = f"{grid.columns[first]}{last} → {grid.rows[row]}"
                ElementTree.SubElement(cell, "title").text = f"{words}: {weight:.3g}"
            if not weight:
                y = (row + 0.5) * down
                zeros += [f"M{(n + 0.5) * across:.1f} {y:.1f}h0" for n, _ in cells]
    dots = {"d": "".join(zeros), "stroke": _PAGE_COLORS[MUTED_INK], "stroke-width": "1.3"}
    style = {"stroke-linecap": "round", "pointer-events": "none"}
    if zeros:
        ElementTree.SubElement(group, "path", {**dots, **style})


def _prune(parent: ElementTree.Element) -> None:
    """Remove elements that draw nothing (invisible paths, empty groups), and whitespace."""
    for child in list(parent):
        _prune(child)
        style = (child.get("style") or "").replace(" ", "")
        blank = child.tag == f"{_SVG}path" and "fill:none" in style and "stroke" not in style
        empty = child.tag in (f"{_SVG}g", f"{_SVG}defs") and not len(child)
        if blank or empty:
            parent.remove(child)
        child.tail = None
    if not (parent.text or "").strip():
        parent.text = None

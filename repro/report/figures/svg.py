"""SVG of matplotlib made fit for the inside of an HTML page."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from xml.etree import ElementTree

from matplotlib.axes import Axes

INK, MUTED_INK, PAPER = "#1b2733", "#667482", "#ffffff"
GRID, SHADE, FRAME = "#e3e8ec", "#f4f6f8", "#b3bdc7"
WEIGHT = "#08306b"
"""Colour of a weight of one; smaller weights are the paler the closer they are to zero."""
FAINTEST = 0.1
"""Opacity of the smallest weights above zero, which must not look like zeros."""
_PAGE_COLOURS = {
    INK: "currentColor",
    MUTED_INK: f"var(--figure-muted,{MUTED_INK})",
    PAPER: f"var(--figure-paper,{PAPER})",
    GRID: f"var(--figure-grid,{GRID})",
    FRAME: f"var(--figure-frame,{FRAME})",
    SHADE: f"var(--figure-shade,{SHADE})",
    WEIGHT: f"var(--figure-weight,{WEIGHT})",
}
"""Colours that follow the page, which is dark at night."""
_FONT = "'DejaVu Sans',Verdana,'Bitstream Vera Sans',sans-serif"
"""Fonts of about the width for which the figure is laid out, before any other."""
_NUMBER = re.compile(r"-?\d+\.\d+")
_REFERENCE = re.compile(r"(^|\()#([\w.-]+)")
_SVG, _XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"


@dataclass(frozen=True)
class Cells:
    """A grid of weights in axes where each cell is one unit wide and high.

    Attributes:
        gid: of the artists that show the cells in pixels, and with ``-dots`` their zeros; SVG
            replaces them.
        weights: one line per row.
        rows: names of the rows, top to bottom; without names nothing is shown on hovering.
        columns: names of the columns.
    """

    gid: str
    axes: Axes
    weights: Sequence[Sequence[float]]
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()


def opacity(weight: float) -> float:
    """Opacity of a cell: none for exact zeros, full for a weight of one."""
    return FAINTEST + (1 - FAINTEST) * min(weight, 1.0) if weight > 0 else 0.0


def inline_svg(markup: str, name: str, description: str, cells: Sequence[Cells]) -> str:
    """Turn a document of matplotlib into an element whose ids and style stay its own.

    Text keeps to generic fonts, black and white follow the colours of the page, and each cell of
    a heat map says on hovering which words it joins and with which weight.

    Args:
        markup: written with ``svg.fonttype`` ``none``.
        name: prefix of every id.
        description: the figure in words, for those who cannot see it.
        cells: heat maps of the figure.
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
        _tidy(element, prefix, used)
    root.attrib.pop("version", None)
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
    """Replace the pixels of a heat map by shapes with titles, one per weight or run of zeros."""
    (left, right), (below, above) = grid.axes.get_xlim(), grid.axes.get_ylim()
    figure = grid.axes.get_figure(root=True)
    assert figure is not None
    box = grid.axes.get_window_extent().transformed(figure.dpi_scale_trans.inverted())
    height = figure.get_size_inches()[1]
    across, down = 72 * box.width / (right - left), 72 * box.height / (below - above)
    x, y = 72 * box.x0, 72 * (height - box.y1)
    group.set("transform", f"translate({x:.2f} {y:.2f})")
    shaded = ElementTree.SubElement(
        group, "g", {"fill": _PAGE_COLOURS[WEIGHT], "transform": f"scale({across:.3f} {down:.3f})"}
    )
    zeros = []
    for row, line in enumerate(grid.weights):
        column = 0
        for zero, neighbours in groupby(line, lambda weight: weight == 0):
            weights = list(neighbours)
            if zero:  # neighbours share a shape: there are many, and all say the same
                places = [(column, len(weights), 0.0)]
                for n in range(column, column + len(weights)):
                    zeros.append(f"M{(n + 0.5) * across:.1f} {(row + 0.5) * down:.1f}h0")
            else:
                places = [(column + n, 1, weight) for n, weight in enumerate(weights)]
            column += len(weights)
            for first, width, weight in places:
                d = f"M{first} {row}h{width}v1h-{width}z"
                shape = {"d": d, "fill-opacity": f"{opacity(weight):.3g}"}
                cell = ElementTree.SubElement(shaded, "path", shape)
                if grid.rows:
                    last = f" … {grid.columns[first + width - 1]}" if width > 1 else ""
                    words = f"{grid.columns[first]}{last} → {grid.rows[row]}"
                    ElementTree.SubElement(cell, "title").text = f"{words}: {weight:.3g}"
    dots = {"d": "".join(zeros), "stroke": _PAGE_COLOURS[MUTED_INK], "stroke-width": "1.3"}
    style = {"stroke-linecap": "round", "pointer-events": "none"}
    if zeros:
        ElementTree.SubElement(group, "path", {**dots, **style})


def _prune(parent: ElementTree.Element) -> None:
    """Leave out what draws nothing: invisible backgrounds, comments, empty groups."""
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


def _tidy(element: ElementTree.Element, prefix: str, used: set[str]) -> None:
    name = element.attrib.pop("id", None)
    if name in used:
        element.set("id", f"{prefix}-{name}")
    for key, value in element.attrib.items():
        if key == "style":
            value = re.sub(r"font-family:[^;]*;?\s*|(?<=:|;)\s+", "", value)
            value = re.sub(r"font: ?((?:bold |italic )*)([\d.]+)px [^;]*", _short_font, value)
            for colour, of_page in _PAGE_COLOURS.items():
                value = value.replace(colour, of_page)
        if key in ("style", "clip-path", f"{_XLINK}href"):
            value = _REFERENCE.sub(rf"\1#{prefix}-\2", value)
        if key in ("d", "x", "y", "transform", "points", "width", "height", "viewBox"):
            value = _NUMBER.sub(lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), value)
            value = " ".join(value.split())
        element.set(key, value)


def _short_font(found: re.Match[str]) -> str:
    weight = "font-weight:bold;" if "bold" in found[1] else ""
    return f"{weight}font-size:{found[2]}px"

"""Alignments of one pair by several runs, as in Niculae et al. (2018), Figure 5."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from repro.report.attention import OUTLINE, SCALE, SHADES
from repro.report.canvas import INK, MUTED_INK, drawable, new_figure
from repro.report.choice import OWN
from repro.report.compared_pairs import (
    ComparedPair,
    Row,
    check_sums,
    checked_weights,
    common_pairs,
    compared_pair,
    runs_remark,
)
from repro.report.strips import ZERO
from repro.results import ResultsError

LONGEST = (14, 12)
"""Words of a premise and of a hypothesis that fit."""
WANTED = "neutral"
"""Label of the paper's example."""
CELL = 0.24
GAP, MARGIN, TITLE, LETTER, LINE, NARROWEST = 0.35, 0.15, 0.62, 0.075, 0.16, 3.2
PATHS = ("#c8502f", "#e0a030", "#7a4fa3", "#2f8f6b", "#c2458c", "#6b5a2e")
MOST = 6
"""Paths or matchings that are drawn, the heaviest ones."""


@dataclass(frozen=True)
class Structure:
    """One selected structure: the partner of each word, -1 for none, and its weight."""

    partners: tuple[int, ...]
    weight: float


@dataclass(frozen=True)
class AlignmentPanel:
    """What one run aligns.

    Attributes:
        forth: weights of the hypothesis for each word of the premise: rows sum to one.
        back: weights of the premise for each word of the hypothesis, transposed: columns do.
        forth_structures: the selected paths through the premise, or the selected matchings.
        back_structures: the selected paths through the hypothesis.
    """

    forth: list[list[float]]
    back: list[list[float]]
    forth_structures: tuple[Structure, ...]
    back_structures: tuple[Structure, ...]

    @property
    def symmetrical(self) -> bool:
        """Whether one structure serves both directions."""
        return bool(self.forth_structures) and not self.back_structures


def gather_alignment(kept: Mapping[str, Sequence[Row]], prefer: Sequence[str]) -> dict[str, Any]:
    """Choose a pair: of a preferred hypothesis, else a neutral one that every run is right about.

    Among these the pair with the most cells, of at most 14 by 12 words; ties go to the lowest
    index.

    Raises:
        ResultsError: the runs kept no pair in common, or a row is malformed.
    """
    chosen = min(common_pairs(kept), key=lambda row: _rank(compared_pair(row), prefer))
    return {**chosen, OWN: compared_pair(chosen).place_in(prefer) < len(prefer)}


def draw_alignments(row: Row) -> Figure:
    """Draw the premise downwards and the hypothesis to the right, one column for each run.

    Above, columns sum to one; below, rows do. Selected paths are lines. A symmetrical alignment
    is drawn once, above its selected matchings.

    Raises:
        ResultsError: the row is malformed or weights are no distribution.
    """
    pair = compared_pair(row)
    panels = _panels(pair)
    left, foot = _room(pair.premise), _room(pair.hypothesis)
    across, down = CELL * len(pair.hypothesis), CELL * len(pair.premise)
    width = max(left + len(panels) * (across + GAP) + MARGIN, NARROWEST)
    texts = _texts(pair, width)
    figure = new_figure(width, 2 * (down + foot) + 1.2 * TITLE + LINE * len(texts))
    for number, (label, panel) in enumerate(panels.items()):
        x = left + number * (across + GAP)
        upper = _axes(figure, x, 2 * foot + down + TITLE * 0.55, across, down)
        _draw_cells(upper, pair, panel.back, number == 0)
        upper.set_title(drawable(label), fontsize=10, color=INK, pad=6)
        if panel.symmetrical:
            _draw_matchings(figure, panel.forth_structures, (x, foot, across, down), pair)
            continue
        lower = _axes(figure, x, foot, across, down)
        _draw_cells(lower, pair, panel.forth, number == 0)
        _draw_paths(upper, panel.back_structures, downwards=False)
        _draw_paths(lower, panel.forth_structures, downwards=True)
    figure.text(
        MARGIN / width, 1 - 0.08 / figure.get_size_inches()[1], "\n".join(texts), fontsize=8,
        color=MUTED_INK, va="top", linespacing=1.3, parse_math=False,
    )  # fmt: skip
    return figure


def _texts(pair: ComparedPair, width: float) -> list[str]:
    """Premise, hypothesis and label, in lines that fit into the width."""
    texts = (
        f"premise: {' '.join(pair.premise)}",
        f"hypothesis: {' '.join(pair.hypothesis)}",
        f"gold: {pair.gold}",
    )
    letters = int((width - 2 * MARGIN) / LETTER)
    return [line for text in texts for line in textwrap.wrap(drawable(text), letters)]


def describe_alignments(row: Row) -> str:
    """The pair, the nonzero weights and the number of structures of each run, in words."""
    pair = compared_pair(row)
    cells = 2 * len(pair.premise) * len(pair.hypothesis)
    found = []
    for label, panel in _panels(pair).items():
        nonzero = sum(
            w > 0 for matrix in (panel.forth, panel.back) for line in matrix for w in line
        )
        selected = len(panel.forth_structures) + len(panel.back_structures)
        structures = f", {selected} structures" if selected else ""
        found.append(f"{label}: {nonzero} of {cells} weights are nonzero{structures}")
    premise, hypothesis = " ".join(pair.premise), " ".join(pair.hypothesis)
    return f"Alignments of {premise!r} with {hypothesis!r} ({pair.gold}). {'; '.join(found)}."


def remark_alignments(row: Row) -> str:
    """Which runs are shown, which are wrong, and how many structures are not drawn."""
    pair = compared_pair(row)
    remarks = [runs_remark(row, [pair])]
    for label, panel in _panels(pair).items():
        selected = (panel.forth_structures, panel.back_structures)
        hidden = sum(max(len(structures) - MOST, 0) for structures in selected)
        if hidden:
            remarks.append(f"{label}: the {hidden} lightest structures are not drawn.")
    return " ".join(remark for remark in remarks if remark)


def _rank(pair: ComparedPair, prefer: Sequence[str]) -> tuple[int, ...]:
    m, n = len(pair.premise), len(pair.hypothesis)
    fits = m <= LONGEST[0] and n <= LONGEST[1]
    size = -m * n if fits else m * n
    return pair.place_in(prefer), not fits, len(pair.wrong), pair.gold != WANTED, size, pair.index


def _panels(pair: ComparedPair) -> dict[str, AlignmentPanel]:
    return {label: _panel(pair, label) for label in pair.panels}


def _panel(pair: ComparedPair, label: str) -> AlignmentPanel:
    row, place = pair.panels[label], f"pair {pair.index}, {label}"
    m, n = len(pair.premise), len(pair.hypothesis)
    try:
        forth = checked_weights(row["premise_to_hypothesis"], m, n, place)
        back = checked_weights(row["hypothesis_to_premise"], n, m, place)
        kept = row["structures"]
        paths = _structures(kept.get("premise_to_hypothesis", []), m, n, place)
        others = _structures(kept.get("hypothesis_to_premise", []), n, m, place)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ResultsError(f"{place}: missing or malformed: {error}") from error
    panel = AlignmentPanel(forth, [*map(list, zip(*back, strict=True))], paths, others)
    if not panel.symmetrical:  # a word of the longer sentence may have no partner in a matching
        check_sums([sum(line) for line in (*forth, *back)], place)
    return panel


def _structures(rows: Sequence[Row], size: int, partners: int, place: str) -> tuple[Structure, ...]:
    found = [Structure(tuple(map(int, row["partners"])), float(row["weight"])) for row in rows]
    for one in found:
        if len(one.partners) != size or not all(-1 <= to < partners for to in one.partners):
            raise ResultsError(f"{place}: expected {size} partners among {partners} words")
    if found:
        check_sums([sum(one.weight for one in found)], place)
    return tuple(sorted(found, key=lambda one: -one.weight))


def _room(words: Sequence[str]) -> float:
    return MARGIN + LETTER * max(len(drawable(word)) for word in words) + 0.1


def _axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    across, up = figure.get_size_inches()
    return figure.add_axes((left / across, bottom / up, width / across, height / up))


def _draw_cells(
    axes: Axes, pair: ComparedPair, weights: Sequence[Sequence[float]], labelled: bool
) -> None:
    _frame(axes, pair)
    axes.set_facecolor(ZERO)
    for y, line in enumerate(weights):
        for x, weight in enumerate(line):
            if weight > 0:
                axes.add_patch(_cell(x, y, weight))
    words = [drawable(word) for word in pair.hypothesis]
    axes.set_xticks([x + 0.5 for x in range(len(words))], words, rotation=90, parse_math=False)
    if labelled:
        words = [drawable(word) for word in pair.premise]
        axes.set_yticks([y + 0.5 for y in range(len(words))], words, parse_math=False)


def _frame(axes: Axes, pair: ComparedPair) -> None:
    axes.set_xlim(0, len(pair.hypothesis))
    axes.set_ylim(len(pair.premise), 0)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.tick_params(length=0, pad=3, labelcolor=INK, labelsize=8)
    for spine in axes.spines.values():
        spine.set_color("#c3ccd4")
        spine.set_linewidth(0.6)


def _cell(x: int, y: int, weight: float) -> Rectangle:
    return Rectangle(
        (x + 0.06, y + 0.06), 0.88, 0.88, facecolor=SHADES(SCALE(weight)), edgecolor=OUTLINE,
        linewidth=0.8,
    )  # fmt: skip


def _draw_paths(axes: Axes, structures: Sequence[Structure], *, downwards: bool) -> None:
    """Lines through the partners of the words, beside each other, as thick as their weight."""
    for number, one in reversed([*enumerate(structures[:MOST])]):
        shift = 0.5 + 0.09 * ((number + 1) // 2) * (-1) ** number
        along = [place + 0.5 for place in range(len(one.partners))]
        beside = [partner + min(max(shift, 0.1), 0.9) for partner in one.partners]
        points = (beside, along) if downwards else (along, beside)
        axes.plot(
            *points, color=PATHS[number % len(PATHS)], linewidth=0.6 + 2.2 * one.weight,
            solid_capstyle="round", marker="o", markersize=1.8,
        )  # fmt: skip


def _draw_matchings(
    figure: Figure,
    structures: Sequence[Structure],
    box: tuple[float, float, float, float],
    pair: ComparedPair,
) -> None:
    """The heaviest matchings in small grids, two beside each other."""
    left, bottom, across, down = box
    width, height = 0.42 * across, 0.24 * down
    for number, one in enumerate(structures[:MOST]):
        row, column = divmod(number, 2)
        x, y = left + column * 0.55 * across, bottom + down - height - row * 0.37 * down
        axes = _axes(figure, x, y, width, height)
        _frame(axes, pair)
        for place, partner in enumerate(one.partners):
            if partner >= 0:
                axes.add_patch(Rectangle((partner, place), 1, 1, facecolor=PATHS[0]))
        axes.set_title(f"{one.weight:.2f}", fontsize=7, color=INK, pad=2)

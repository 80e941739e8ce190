"""Alignments of one pair by several runs, as in Niculae et al. (2018), Figure 5."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from matplotlib.patches import Rectangle

from repro.report.figures.canvas import FRAME, INK, MARGIN, MUTED_INK, Canvas, drawable
from repro.report.figures.comparison import choose_pairs, hypothesis_of, wrong_in_words, wrong_runs
from repro.report.figures.heatmap import FOOT, Heatmap, bar_room, draw_bar, draw_heatmap, room
from repro.report.figures.kinds import Figure, FigureRuns, Row

LONGEST = (14, 12)
"""Most words of a premise and of a hypothesis that fit on the page."""
WANTED = "neutral"
"""Label of the paper's example, which the choice of an example prefers."""
CELL = 0.2
GAP, LETTER, LINE, TITLE, WEIGHTS = 0.3, 0.078, 0.17, 0.35, 0.3
PATHS = ("#c8502f", "#e0a030", "#7a4fa3", "#2f8f6b", "#c2458c", "#6b5a2e")
MOST = 6
"""Number of paths or matchings that are drawn, the heaviest ones."""
_FORTH, _BACK = "premise_to_hypothesis", "hypothesis_to_premise"


@dataclass(frozen=True)
class AlignmentPanel:
    """Word alignment of one run.

    Attributes:
        forth: weights of the hypothesis for each word of the premise: rows sum to one.
        back: weights of the premise for each word of the hypothesis: columns sum to one.
        forth_structures: the selected paths through the premise, or the selected matchings, by
            decreasing weight: the partner of each word, -1 for none, and the weight.
        back_structures: the selected paths through the hypothesis, in the same form.
    """

    forth: Sequence[Sequence[float]]
    back: Sequence[Sequence[float]]
    forth_structures: Sequence[Row]
    back_structures: Sequence[Row]

    @property
    def symmetrical(self) -> bool:
        """Return whether one structure serves both directions."""
        return bool(self.forth_structures) and not self.back_structures


class Alignments(Figure):
    """Heat maps of premise words (rows) by hypothesis words (columns), side by side for each run.

    Columns of the upper maps sum to one, rows of the lower ones. Selected paths are lines. A
    symmetrical alignment is drawn once, above its selected matchings.
    """

    shows: ClassVar[str] = "the best run of each row"
    rule = (
        f"a neutral pair of at most {LONGEST[0]} by {LONGEST[1]} words that every model predicts "
        "correctly, the most cells"
    )

    def gather(self, runs: FigureRuns) -> dict[str, Any]:
        def rank(pair: Row) -> tuple[int, ...]:
            m, n = len(pair["premise"]), len(pair["hypothesis"])
            fits = m <= LONGEST[0] and n <= LONGEST[1]
            size = -m * n if fits else m * n
            return not fits, len(wrong_runs(pair)), pair["gold"] != WANTED, size

        return choose_pairs(runs, rank, 1, self.rule)

    def draw(self, data: Row) -> Canvas:
        (pair,) = data["pairs"]
        premise, hypothesis = pair["premise"], pair["hypothesis"]
        panels = panels_of(pair)
        left, foot = MARGIN + room(premise), room(hypothesis) + WEIGHTS
        across, down = CELL * len(hypothesis), CELL * len(premise)
        width = max(left + len(panels) * (across + GAP), bar_room())
        texts = {"premise": " ".join(premise), "hypothesis": hypothesis_of(pair)}
        texts["gold"] = pair["gold"]
        letters, lines = int((width - 2 * MARGIN) / LETTER), list[str]()
        for name, text in texts.items():
            lines += textwrap.wrap(drawable(f"{name}: {text}"), letters)
        head = 0.1 + LINE * len(lines) + TITLE
        canvas = Canvas(width, head + 2 * (down + foot) + FOOT)
        canvas.write(MARGIN, 0.1, "\n".join(lines), fontsize=9, color=MUTED_INK, linespacing=1.3)
        for number, (label, panel) in enumerate(panels.items()):
            x = left + number * (across + GAP)
            maps = [(panel.back, panel.back_structures, False)]
            maps += [] if panel.symmetrical else [(panel.forth, panel.forth_structures, True)]
            for place, (weights, structures, downwards) in enumerate(maps):
                grid = Heatmap(weights, premise, hypothesis, (CELL, CELL), name_rows=number == 0)
                axes = draw_heatmap(canvas, x, head + place * (down + foot), grid)
                below = head + place * (down + foot) + down + foot - WEIGHTS
                # Paths are shifted sideways so that they do not cover each other. Their width shows
                # the weight, which is written below in the colour of the path.
                for rank, one in reversed([*enumerate(structures[:MOST])]):
                    shift = min(max(0.5 + 0.09 * ((rank + 1) // 2) * (-1) ** rank, 0.1), 0.9)
                    along = [word + 0.5 for word in range(len(one["partners"]))]
                    beside = [partner + shift for partner in one["partners"]]
                    points = (beside, along) if downwards else (along, beside)
                    color, text = PATHS[rank % len(PATHS)], f"{one['weight']:.2f}"
                    axes.plot(
                        *points, color=color, linewidth=0.6 + 2.2 * one["weight"],
                        solid_capstyle="round", marker="o", markersize=1.8,
                    )  # fmt: skip
                    canvas.write(x + 0.36 * rank, below, text, fontsize=8, color=color)
                if place == 0:
                    axes.set_title(drawable(label), fontsize=10, color=INK, pad=6)
            if panel.symmetrical:
                box = (x, head + down + foot, across, down)
                _draw_matchings(canvas, panel.forth_structures, box, pair)
        draw_bar(canvas)
        return canvas

    def describe(self, data: Row) -> str:
        (pair,) = data["pairs"]
        cells = 2 * len(pair["premise"]) * len(pair["hypothesis"])
        found = []
        for label, panel in panels_of(pair).items():
            lines = (line for weights in (panel.forth, panel.back) for line in weights)
            nonzero = sum(weight > 0 for line in lines for weight in line)
            selected = len(panel.forth_structures) + len(panel.back_structures)
            structures = f", {selected} structures" if selected else ""
            found.append(f"{label}: {nonzero} of {cells} weights are nonzero{structures}")
        premise = " ".join(pair["premise"])
        return (
            f"Alignments of {premise!r} with {hypothesis_of(pair)!r} ({pair['gold']}). "
            f"{'; '.join(found)}."
        )

    def remark(self, data: Row) -> str:
        (pair,) = data["pairs"]
        panels = panels_of(pair)
        parts = []
        if any(panel.back_structures for panel in panels.values()):
            parts.append("Lines are the selected paths with their weights below.")
        if matchings := [label for label, panel in panels.items() if panel.symmetrical]:
            once = "symmetrical, so drawn once, above the selected matchings with their weights."
            parts.append(f"{' and '.join(matchings)}: {once}")
        parts.append(wrong_in_words([pair]))
        for label, panel in panels.items():
            selected = (panel.forth_structures, panel.back_structures)
            if hidden := sum(max(len(structures) - MOST, 0) for structures in selected):
                parts.append(f"{label}: the {hidden} lightest structures are not drawn.")
        return " ".join(filter(None, parts))


def panels_of(pair: Row) -> dict[str, AlignmentPanel]:
    """Return the alignment panel of each run, by its label."""
    return {
        label: AlignmentPanel(
            one[_FORTH],
            [*zip(*one[_BACK], strict=True)],
            *(
                sorted(one["structures"].get(way, []), key=lambda found: -found["weight"])
                for way in (_FORTH, _BACK)
            ),
        )
        for label, one in pair["panels"].items()
    }


def _draw_matchings(
    canvas: Canvas, structures: Sequence[Row], box: tuple[float, float, float, float], pair: Row
) -> None:
    """Draw the heaviest matchings as small grids, two per row."""
    left, top, across, down = box
    width, height = 0.4 * across, 0.24 * down
    for number, one in enumerate(structures[:MOST]):
        row, column = divmod(number, 2)
        x, y = left + (0.08 + 0.52 * column) * across, top + row * 0.42 * down
        axes = canvas.box(x, canvas.get_size_inches()[1] - y - height, width, height)
        extent = {"xlim": (0, len(pair["hypothesis"])), "ylim": (len(pair["premise"]), 0)}
        axes.set(**extent, xticks=[], yticks=[])
        axes.spines[:].set(color=FRAME, linewidth=0.5)
        for place, partner in enumerate(one["partners"]):
            if partner >= 0:
                axes.add_patch(Rectangle((partner, place), 1, 1, facecolor=PATHS[0]))
        axes.set_title(f"{one['weight']:.2f}", fontsize=8, color=INK, pad=2)
        axes.set_xlabel("hypothesis", fontsize=6.5, color=MUTED_INK, labelpad=1)
        axes.set_ylabel("premise", fontsize=6.5, color=MUTED_INK, labelpad=1)


FIGURES = {"alignment_grids": Alignments()}

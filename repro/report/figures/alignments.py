"""Alignments of one pair by several runs, as in Niculae et al. (2018), Figure 5."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from repro.report.figures.canvas import FRAME, INK, MUTED_INK, Canvas
from repro.report.figures.comparison import choose_pairs, hypothesis_of, wrong_in_words, wrong_runs
from repro.report.figures.heatmap import Panel
from repro.report.figures.kinds import Figure, FigureRuns, Row
from repro.report.figures.panels import Block, draw_blocks
from repro.report.figures.styles import DASHES
from repro.results.labels import counted

LONGEST = (14, 12)
"""Most words of a premise and of a hypothesis that fit on the page."""
WANTED = "neutral"
"""Label of the paper's example, which the choice of an example prefers."""
CELL, WEIGHTS = (0.2, 0.2), 0.2
PATHS = ("#c8502f", "#7a4fa3")
MOST, MOST_PATHS = 6, 2
"""Numbers of matchings, and of paths, that are drawn, the heaviest ones."""
_FORTH, _BACK = "premise_to_hypothesis", "hypothesis_to_premise"


@dataclass(frozen=True)
class AlignmentPanel:
    """Word alignment of one run."""

    # Weights of the hypothesis for each word of the premise: rows sum to one.
    forth: Sequence[Sequence[float]]
    # Weights of the premise for each word of the hypothesis: columns sum to one.
    back: Sequence[Sequence[float]]
    # The selected paths through the premise, or the selected matchings, by decreasing weight: the
    # partner of each word, -1 for none, and the weight.
    forth_structures: Sequence[Row]
    back_structures: Sequence[Row]  # the selected paths through the hypothesis, in the same form

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
        premise, hypothesis = " ".join(pair["premise"]), hypothesis_of(pair)
        title = f"premise: {premise}\nhypothesis: {hypothesis}\ngold: {pair['gold']}"
        above, below = [], []
        for label, one in panels_of(pair).items():
            words = (pair["hypothesis"], pair["premise"])
            above.append(_Map(label, "", *words, one.back, CELL, one.back_structures))
            if one.symmetrical:  # without words: the map above it shows its own
                words = ([""] * len(pair["hypothesis"]), pair["premise"])
            weights = [] if one.symmetrical else one.forth
            heading = "heaviest matchings" if one.symmetrical else ""
            below.append(_Map(heading, "", *words, weights, CELL, one.forth_structures, True))
        maps = [*above, *below]
        block = Block(title, maps, _finish, across=len(above), head=WEIGHTS)
        return draw_blocks([block])

    def describe(self, data: Row) -> str:
        (pair,) = data["pairs"]
        cells = 2 * len(pair["premise"]) * len(pair["hypothesis"])
        found = []
        for label, panel in panels_of(pair).items():
            lines = (line for weights in (panel.forth, panel.back) for line in weights)
            nonzero = sum(weight > 0 for line in lines for weight in line)
            selected = len(panel.forth_structures) + len(panel.back_structures)
            structures = f", {counted(selected, 'structure')}" if selected else ""
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
            parts.append("Lines are the heaviest paths; their weights are written above.")
        if matchings := [label for label, panel in panels.items() if panel.symmetrical]:
            once = "symmetrical, so drawn once, above the selected matchings with their weights."
            parts.append(f"{' and '.join(matchings)}: {once}")
        parts.append(wrong_in_words([pair]))
        for label, panel in panels.items():
            selected = (panel.forth_structures, panel.back_structures)
            most = MOST if panel.symmetrical else MOST_PATHS
            if hidden := sum(max(len(structures) - most, 0) for structures in selected):
                named = "structure of least weight is"
                if hidden > 1:
                    named = f"{hidden} structures of least weight are"
                parts.append(f"{label}: the {named} not drawn.")
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


@dataclass(frozen=True)
class _Map(Panel):
    """Heat map with the structures of its columns, or of its rows if they run ``downwards``."""

    structures: Sequence[Row] = ()
    downwards: bool = False


def _finish(panel: Panel, axes: Axes) -> None:
    """Draw the heaviest paths over a map, or the heaviest matchings as small grids, two per row."""
    assert isinstance(panel, _Map)
    # Paths are shifted sideways so that they do not cover each other. Their weights are written
    # above in their color.
    shown = panel.structures[: MOST_PATHS if panel.weights else MOST]
    for rank, one in reversed([*enumerate(shown)]):
        text = f"{one['weight']:.2f}"
        if panel.weights:
            shift = 0.5 + 0.16 * rank
            along = [word + 0.5 for word in range(len(one["partners"]))]
            beside = [partner + shift for partner in one["partners"]]
            points = (beside, along) if panel.downwards else (along, beside)
            color = PATHS[rank]
            axes.plot(
                *points, color=color, linewidth=1.6, linestyle=DASHES[rank],
                marker="o", markersize=2.6,
            )  # fmt: skip
            axes.annotate(
                text, (0, 0), (30 * rank, 4), textcoords="offset points", fontsize=8, color=color
            )
            continue
        row, column = divmod(rank, 2)
        small = axes.inset_axes((0.08 + 0.52 * column, 0.76 - 0.42 * row, 0.4, 0.24))
        small.set(xlim=(0, len(panel.columns)), ylim=(len(panel.output), 0), xticks=[], yticks=[])
        small.spines[:].set(color=FRAME, linewidth=0.5)
        for place, partner in enumerate(one["partners"]):
            if partner >= 0:
                small.add_patch(Rectangle((partner, place), 1, 1, facecolor=PATHS[0]))
        small.set_title(text, fontsize=8, color=INK, pad=2)
        small.set_xlabel("hypothesis", fontsize=6.5, color=MUTED_INK, labelpad=1)
        small.set_ylabel("premise", fontsize=6.5, color=MUTED_INK, labelpad=1)


FIGURES = {"alignment_grids": Alignments()}

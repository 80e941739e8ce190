"""Attention of several runs over one premise, as in Niculae & Blondel (2017), Figures 3 and 6."""

from dataclasses import dataclass
from typing import Any, ClassVar

from matplotlib.axes import Axes

from repro.report.figures.canvas import MUTED_INK, WORD_SIZE, Canvas, text_width
from repro.report.figures.comparison import choose_pairs, hypothesis_of, wrong_in_words, wrong_runs
from repro.report.figures.heatmap import Panel
from repro.report.figures.kinds import Figure, FigureRuns, Row
from repro.report.figures.panels import Block, draw_blocks

LONGEST = 24
WRONG = "#b3422d"
CELL = (0.3, 0.2)


@dataclass(frozen=True)
class Premises(Figure):
    """Heat maps of pairs: one row of weights for each run, the words of the premise below."""

    shows: ClassVar[str] = "the best run of each row"
    rule = f"the longest premise of at most {LONGEST} words about which every model is right"
    count: int  # most pairs that are shown

    def gather(self, runs: FigureRuns) -> dict[str, Any]:
        def rank(pair: Row) -> tuple[int, ...]:
            length = len(pair["premise"])
            fits = length <= LONGEST
            return not fits, len(wrong_runs(pair)), -length if fits else length

        return choose_pairs(runs, rank, self.count, self.rule)

    def draw(self, data: Row) -> Canvas:
        return draw_blocks([_block(pair) for pair in data["pairs"]])

    def describe(self, data: Row) -> str:
        parts = []
        for pair in data["pairs"]:
            found = [
                f"{label}: {sum(w > 0 for w in one['weights'])} of {len(one['weights'])} words"
                for label, one in pair["panels"].items()
            ]
            parts.append(f"{hypothesis_of(pair)!r} ({pair['gold']}): {'; '.join(found)}.")
        return f"Words of the premise with nonzero attention. {' '.join(parts)}"

    def remark(self, data: Row) -> str:
        return wrong_in_words(data["pairs"])


def _block(pair: Row) -> Block:
    """Lay out one pair, with the predicted labels on the right."""
    runs = pair["panels"].values()
    predicted = [str(one["predicted"]) for one in runs]

    def finish(panel: Panel, axes: Axes) -> None:
        for y, label in enumerate(predicted):
            axes.text(
                len(panel.columns) + 0.25, y + 0.5, label, fontsize=WORD_SIZE, va="center",
                color=MUTED_INK if label == pair["gold"] else WRONG,
            )  # fmt: skip

    weights = [one["weights"] for one in runs]
    panel = Panel("", "", pair["premise"], [*pair["panels"]], weights, CELL)
    title = f"{hypothesis_of(pair)} ({pair['gold']})"
    beside = 0.1 + max(text_width(label, WORD_SIZE) for label in predicted)
    return Block(title, [panel], finish, beside=beside)


FIGURES = {"premise_attention": Premises(1), "premise_attention_of_three": Premises(3)}

"""Attention of several runs over one premise, as in Niculae & Blondel (2017), Figures 3 and 6."""

from dataclasses import dataclass
from typing import Any, ClassVar

from repro.report.figures.canvas import MARGIN, MUTED_INK, WORD_SIZE, Canvas, drawable, text_width
from repro.report.figures.comparison import choose_pairs, hypothesis_of, wrong_in_words, wrong_runs
from repro.report.figures.heatmap import FOOT, Heatmap, bar_room, draw_bar, draw_heatmap, room
from repro.report.figures.kinds import Figure, FigureRuns, Row

LONGEST = 24
WRONG = "#b3422d"
CELL = (0.3, 0.2)
TITLE, TITLE_SIZE, GAP = 0.34, 9.5, 0.1
NOTE = "no line between equal weights"


@dataclass(frozen=True)
class Premises(Figure):
    """Heat maps of pairs: one row of weights for each run, the words of the premise below.

    Attributes:
        count: most pairs that are shown.
    """

    shows: ClassVar[str] = "the best run of each row"
    rule = f"the longest premise of at most {LONGEST} words about which every model is right"
    count: int

    def gather(self, runs: FigureRuns) -> dict[str, Any]:
        def rank(pair: Row) -> tuple[int, ...]:
            length = len(pair["premise"])
            fits = length <= LONGEST
            return not fits, len(wrong_runs(pair)), -length if fits else length

        return choose_pairs(runs, rank, self.count, self.rule)

    def draw(self, data: Row) -> Canvas:
        pairs = data["pairs"]
        left = MARGIN + room([label for pair in pairs for label in pair["panels"]])
        labels = [str(one["predicted"]) for pair in pairs for one in pair["panels"].values()]
        words = max(len(pair["premise"]) for pair in pairs)
        widths = [
            left + CELL[0] * words + max(text_width(one, WORD_SIZE) for one in labels) + 0.1,
            bar_room(NOTE),
            *(MARGIN + text_width(_title(pair), TITLE_SIZE) for pair in pairs),
        ]
        heights = [
            TITLE + CELL[1] * len(pair["panels"]) + room(pair["premise"]) + GAP for pair in pairs
        ]
        canvas = Canvas(max(widths) + MARGIN, sum(heights) + FOOT)
        down = 0.0
        for pair, height in zip(pairs, heights, strict=True):
            canvas.write(MARGIN, down + 0.1, _title(pair), fontsize=TITLE_SIZE)
            weights = [one["weights"] for one in pair["panels"].values()]
            grid = Heatmap(weights, [*pair["panels"]], pair["premise"], CELL)
            axes = draw_heatmap(canvas, left, down + TITLE, grid)
            for y, one in enumerate(pair["panels"].values()):
                right = one["predicted"] == pair["gold"]
                axes.text(
                    len(pair["premise"]) + 0.25, y + 0.5, str(one["predicted"]),
                    fontsize=WORD_SIZE, va="center", color=MUTED_INK if right else WRONG,
                )  # fmt: skip
            down += height
        draw_bar(canvas, NOTE)
        return canvas

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


def _title(pair: Row) -> str:
    return drawable(f"{hypothesis_of(pair)}   ({pair['gold']})")


FIGURES = {"premise_attention": Premises(1), "premise_attention_of_three": Premises(3)}

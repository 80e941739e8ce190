"""Gold tree and SparseMAP's arcs of a sentence, as in Niculae et al. (2018), Figure 3."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from repro.report.figures.canvas import INK, MUTED_INK, PAPER, Canvas, drawable, text_width
from repro.report.figures.kinds import RULE, Figure, FigureRuns, Row, ordered_examples

LONGEST, SIZES, COUNT = 14, range(2, 5), 2
"""Most words that fit, preferred numbers of candidates, number of sentences that are shown."""
WORD_SIZE, GAP = 10, 0.16
ARC_HEIGHT = 0.3
WORD_HEIGHT = 0.36
TITLE_HEIGHT = 0.3
ROOT = "root"
WRONG = "#b3422d"
FAINTEST = 0.35
HEADROOM = 0.15
MOST_WEIGHTS = 8
"""Number of tree weights that the title lists."""
LEGEND = {"above: gold tree": INK, "below: other arcs": WRONG}
"""Meaning of the colors."""
LABEL = (0.27, 0.14)
"""Width and height in inches of the label of an arc, with the space around it."""


Arc = tuple[int, int]
"""Head and modifier, counted from one; the head 0 is the root."""


@dataclass(frozen=True)
class Parse:
    """Dependency tree, as the head of each word (0 for the root), and its weight."""

    heads: tuple[int, ...]
    weight: float

    @property
    def arcs(self) -> frozenset[Arc]:
        """Arcs of the tree."""
        return frozenset((head, place) for place, head in enumerate(self.heads, start=1))


@dataclass(frozen=True)
class ParsedSentence:
    """Sentence with its gold tree and the trees of nonzero weight, the heaviest first."""

    sentence: str
    words: tuple[str, ...]
    gold: Parse
    candidates: tuple[Parse, ...]

    @property
    def marginals(self) -> dict[Arc, float]:
        """Probability of each arc: the total weight of the candidates that contain it."""
        arcs = {arc for parse in self.candidates for arc in parse.arcs}
        return {
            arc: sum(parse.weight for parse in self.candidates if arc in parse.arcs)
            for arc in sorted(arcs)
        }

    @property
    def gold_place(self) -> int | None:
        """Index of the gold tree among the candidates; None if it is not one of them."""
        trees = [parse.heads for parse in self.candidates]
        return trees.index(self.gold.heads) if self.gold.heads in trees else None


class DependencyArcs(Figure):
    """Sentences with the gold tree above the words and the other arcs of the solution below.

    Gold arcs with probability zero are dashed; arcs with one between 0 and 1 are labeled with it.
    """

    rule = (
        f"at most {LONGEST} words and two to four candidates, the gold tree among them and not the "
        "heaviest, the most even weights"
    )

    def gather(self, runs: FigureRuns) -> dict[str, Any]:
        rows = runs.best.examples.read_candidates()

        def rank(row: Row) -> tuple[float, ...]:
            example = parsed_sentence(row)
            several, short = len(example.candidates) in SIZES, len(example.words) <= LONGEST
            place = example.gold_place
            fits = several and short and place is not None and place > 0
            entropy = -sum(parse.weight * math.log(parse.weight) for parse in example.candidates)
            return not fits, not several, not short, place is None, -entropy

        shown = ordered_examples(rows, runs.prefer, names_of, rank)[:COUNT]
        return {"index": shown[0]["index"], "sentences": shown, RULE: self.rule}

    def draw(self, data: Row) -> Canvas:
        panels = [_Panel(parsed_sentence(one)) for one in data["sentences"]]
        height = sum(panel.height for panel in panels) + TITLE_HEIGHT
        canvas = Canvas(max(panel.width for panel in panels), height)
        left = 0.1
        for text, color in LEGEND.items():
            canvas.write(left, height - 0.22, text, fontsize=8, color=color)
            left += text_width(text, 8) + 0.2
        for panel in panels:
            height -= panel.height
            panel.draw(canvas.box(0.0, height, panel.width, panel.height))
        return canvas

    def describe(self, data: Row) -> str:
        parts = []
        for example in (parsed_sentence(one) for one in data["sentences"]):
            names = ["the root", *map(repr, example.words)]
            doubtful = [
                f"{names[modifier]} below {names[head]} ({weight:.2f})"
                for (head, modifier), weight in example.marginals.items()
                if weight < 1 - 1e-6
            ]
            arcs = f"Arcs in doubt: {'; '.join(doubtful)}." if doubtful else "No arc is in doubt."
            parts.append(
                f"Dependency trees of {' '.join(example.words)!r}: {len(example.candidates)} with "
                f"nonzero weight. {arcs}"
            )
        return " ".join(parts)

    def remark(self, data: Row) -> str:
        found = []
        for example in (parsed_sentence(one) for one in data["sentences"]):
            if not example.gold.arcs <= example.marginals.keys():
                found.append(f"Dashed arcs of {example.sentence} have probability zero.")
            if len(example.candidates) == 1:
                found.append(f"The solution for {example.sentence} is a single tree.")
            if example.gold_place is None:
                found.append(f"The gold tree of {example.sentence} is not among the candidates.")
        return " ".join(found)


def names_of(row: Row) -> tuple[str, str]:
    """Return texts by which ``drawing.prefer`` selects a sentence: identifier, words."""
    return str(row["sentence"]), " ".join(row["words"])


def parsed_sentence(row: Row) -> ParsedSentence:
    """Convert a row of ``candidates.jsonl``."""
    return ParsedSentence(
        sentence=str(row["sentence"]),
        words=tuple(row["words"]),
        gold=Parse(tuple(row["gold"]), 1.0),
        candidates=tuple(Parse(tuple(one["heads"]), one["weight"]) for one in row["candidates"]),
    )


class _Panel:
    """Layout of one sentence with arcs above and below; all lengths are in inches."""

    def __init__(self, example: ParsedSentence) -> None:
        self.example = example
        self.labels = [ROOT, *(drawable(word) for word in example.words)]
        self.centers, left = list[float](), GAP
        for label in self.labels:
            width = max(text_width(label, WORD_SIZE), 0.16)
            self.centers.append(left + width / 2)
            left += width + GAP
        marginals = example.marginals
        self.gold = {arc: marginals.get(arc, 0.0) for arc in example.gold.arcs}
        self.others = {arc: weight for arc, weight in marginals.items() if arc not in self.gold}
        self.above = _height(self.gold) + WORD_HEIGHT / 2 + TITLE_HEIGHT
        self.below = (_height(self.others) if self.others else 0.1) + WORD_HEIGHT / 2
        right = self.centers[-1] + text_width(self.labels[-1], WORD_SIZE) / 2 + GAP
        title = text_width(_title(example), 9) + 2 * GAP
        self.width, self.height = max(right, title), self.above + self.below

    def draw(self, axes: Axes) -> None:
        """Draw into axes of this panel's size."""
        axes.set_axis_off()
        axes.set(xlim=(0, self.width), ylim=(-self.below, self.above))
        for x, label in zip(self.centers, self.labels, strict=True):
            color = MUTED_INK if label is self.labels[0] else INK
            axes.text(x, 0, label, ha="center", va="center", fontsize=WORD_SIZE, color=color)
        _draw_arcs(axes, self.centers, self.gold, 1, INK)
        _draw_arcs(axes, self.centers, self.others, -1, WRONG)
        title = _title(self.example)
        axes.text(0.1, self.above - 0.1, title, fontsize=9, color=INK, va="top")


def _height(arcs: Mapping[Arc, float]) -> float:
    return HEADROOM + max(_arc_height(arc) for arc in arcs)


def _arc_height(arc: Arc) -> float:
    """Return the height in inches, which grows with the span of the arc to the power 0.75."""
    return ARC_HEIGHT * float(abs(arc[0] - arc[1]) ** 0.75)


def _on_curve(
    t: float, start: float, end: float, base: float, control: float
) -> tuple[float, float]:
    """Return the point of the cubic Bézier curve of an arc at parameter ``t``, in inches."""
    share, rise = t * t * (3 - 2 * t), 3 * t * (1 - t)
    return start + share * (end - start), base + rise * (control - base)


def _draw_arcs(
    axes: Axes, centers: Sequence[float], arcs: Mapping[Arc, float], side: int, color: str
) -> None:
    """Draw the arcs of one side, then the probabilities of those that are not certain."""
    taken: list[tuple[float, float]] = []
    for arc, weight in sorted(arcs.items()):
        start, end = (centers[place] for place in arc)
        end += 0.04 if start > end else -0.04
        base, peak = side * WORD_HEIGHT / 2, side * (WORD_HEIGHT / 2 + _arc_height(arc))
        control = base + 4 / 3 * (peak - base)  # the curve rises to 3/4 of its control points
        corners = [(start, base), (start, control), (end, control), (end, base)]
        curve = Path(corners, [Path.MOVETO, *[Path.CURVE4] * 3])
        strength = FAINTEST + (1 - FAINTEST) * min(weight, 1.0)  # sums of weights are rounded
        style = "solid" if weight > 0 else (0, (3, 2))
        axes.add_patch(
            PathPatch(curve, fill=False, edgecolor=color, alpha=strength, linestyle=style)
        )
        tip = "v" if side > 0 else "^"
        axes.plot([end], [base], tip, markersize=4, color=color, alpha=strength)
        if 0 < weight < 1 - 1e-6:
            # Center of the label: the first position clear of other labels, on the curve near its
            # top or else outwards from there.
            shares = [0.5 + sign * step / 50 for step in range(20) for sign in (1, -1)]
            places = [_on_curve(share, start, end, base, control) for share in shares]
            (x, y), outward = places[0], 1.01 * side * LABEL[1]
            places += [(x, y + outward * step) for step in range(1, 2 * len(taken) + 2)]
            taken.append(next(one for one in places if all(_apart(one, other) for other in taken)))
            axes.text(
                *taken[-1], f"{weight:.2f}", ha="center", va="center", fontsize=8, color=color,
                bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 0.5},
            )  # fmt: skip


def _apart(first: tuple[float, float], second: tuple[float, float]) -> bool:
    """Return whether labels centered at two points do not overlap."""
    return any(abs(a - b) > size for a, b, size in zip(first, second, LABEL, strict=True))


def _title(example: ParsedSentence) -> str:
    weights = [f"{parse.weight:.2f}" for parse in example.candidates]
    if example.gold_place is not None:
        weights[example.gold_place] += " (gold)"
    count = f"{len(weights)} trees" if len(weights) > 1 else "1 tree"
    if len(weights) > MOST_WEIGHTS:
        weights[MOST_WEIGHTS:] = ["…"]
    return drawable(f"Sentence {example.sentence}: {count}, of weight {', '.join(weights)}")


FIGURES = {"dependency_arcs": DependencyArcs()}

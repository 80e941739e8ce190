"""Lattice of hypotheses in the manner of Peters et al. (2019), Figure 1."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from repro.data.vocabulary import END
from repro.report.figures.canvas import (
    INK,
    MUTED_INK,
    SPACE,
    Canvas,
    drawable,
    text_width,
    token_label,
)
from repro.report.figures.kinds import RULE, Figure, FigureRuns, Row, ordered_examples
from repro.results import ResultsError

STEP, BRANCH, TRUNK, LINE = 0.22, 0.8, 0.1, 0.42
MARGIN, HEADER, FOOTER = 0.2, 0.5, 0.4
SIZES = range(2, 5)
TOLERANCE = 1e-3
HALF_LETTER, LETTER = 0.055, 0.095
PERCENT, GAP, GOLD_MARK = 0.78, 0.1, 0.66
END_ROOM = PERCENT + GAP + GOLD_MARK
MOST = 12
CERTAIN, ROUNDING = 0.9995, 1e-6
"""Probability from which a step needs no label; distance from 1 that reads as ``100.0 %``."""
GOLD, ARROW = "#1a7f37", "#7d8a96"


@dataclass(frozen=True)
class Hypothesis:
    """Output string: its tokens, its probability, and that of each step.

    The last step is the end symbol; it is missing if the search stopped before.
    """

    tokens: tuple[str, ...]
    probability: float
    steps: tuple[float, ...]

    @property
    def text(self) -> str:
        """Output string, or the prefix of it that the search reached."""
        return "".join(self.tokens)

    @property
    def finished(self) -> bool:
        """Return whether the search reached the end symbol."""
        return len(self.steps) > len(self.tokens)


@dataclass(frozen=True)
class LatticeExample:
    """Hypotheses of one example; ``finite`` says that every other string has probability zero."""

    index: int
    gold: str
    finite: bool
    hypotheses: tuple[Hypothesis, ...]

    @property
    def ranked(self) -> tuple[Hypothesis, ...]:
        """Hypotheses by decreasing probability."""
        return tuple(sorted(self.hypotheses, key=lambda one: (-one.probability, one.tokens)))

    @property
    def has_gold(self) -> bool:
        """Return whether the gold string is among the hypotheses."""
        return any(self.is_gold(hypothesis) for hypothesis in self.hypotheses)

    def is_gold(self, hypothesis: Hypothesis) -> bool:
        """Return whether a hypothesis is the whole gold string."""
        return hypothesis.finished and hypothesis.text == self.gold


@dataclass
class Node:
    """Node of a prefix tree of hypotheses."""

    token: str  # last token of the prefix; empty for the root and for leaves
    step: float  # probability of the step into this node
    hypothesis: Hypothesis | None = None  # the complete hypothesis; leaves only
    children: list["Node"] = field(default_factory=list)  # by decreasing mass (build_tree)
    mass: float = 0.0  # total probability of the hypotheses that pass through the node
    half: float = 0.0  # half the width of the token, in inches
    x: float = 0.0  # position along the string in inches, set by place
    y: int = 0  # number of the line, set by place; the first child stays on that of its parent

    @property
    def branches(self) -> bool:
        """Return whether more than one continuation is listed."""
        return len(self.children) > 1


class Lattice(Figure):
    """Hypotheses as a tree: shared prefixes are drawn once, each hypothesis ends on its own line.

    Arrows at branches are labeled with the probability of the step, leaves with the string and
    its probability; the gold string is marked.
    """

    rule = "the most even complete set of two to four hypotheses with the gold form"

    def gather(self, runs: FigureRuns) -> dict[str, Any]:
        def rank(row: Row) -> tuple[float, ...]:
            one = lattice_example(row)
            right_size = len(one.hypotheses) in SIZES
            fits = one.finite and right_size and one.has_gold
            # Entropy comes last: it is comparable only between sets of a suitable size.
            return not fits, not one.finite, not right_size, not one.has_gold, -entropy(one)

        rows = runs.best.examples.read_hypotheses()
        return {**ordered_examples(rows, runs.prefer, names_of, rank)[0], RULE: self.rule}

    def draw(self, data: Row) -> Canvas:
        example = lattice_example(data)
        root = build_tree(example)
        lines = place(root)
        head = drawable(f"{data['language']}: {data['lemma']}, {' '.join(data['tags'])}")
        foot = _footer(example)
        ends = [child for _, child in walk(root) if child.hypothesis is not None]
        tree = max(end.x + LETTER * len(_end_text(end)) for end in ends) + END_ROOM
        width = 2 * MARGIN + max(tree, text_width(head, 10), text_width(foot, 8.5))
        height = HEADER + lines * LINE + FOOTER
        canvas = Canvas(width, height)
        axes = canvas.page()
        top, bottom = -HEADER - LINE / 2, height - HEADER - LINE / 2
        axes.set(xlim=(-MARGIN, width - MARGIN), ylim=(bottom, top))
        write = partial(axes.text, fontsize=10, va="center", color=INK)
        for parent, child in walk(root):
            # The arrow, with a vertical stroke if the child is on another line.
            trunk, end, y = parent.x + parent.half + TRUNK, child.x - child.half, child.y * LINE
            line: dict[str, Any] = {"color": ARROW, "linewidth": 0.8 + 1.4 * child.mass}
            if child.y == parent.y:
                trunk -= TRUNK
            else:
                axes.plot([trunk, trunk], [parent.y * LINE, y], **line)
            style = {"arrowstyle": "-|>", "mutation_scale": 9, "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", (end, y), (trunk, y), arrowprops={**style, **line})
            if parent.branches and child.step < CERTAIN:
                x = (parent.x + parent.half + TRUNK + end) / 2 - 0.03
                write(x, y - 0.1, percent(child.step), fontsize=7.5, ha="center")
            if child.hypothesis is None:
                write(child.x, y, token_label(child.token), fontsize=12, ha="center")
                continue
            # Texts of a leaf are written separately, as the string may run from right to left.
            gold = example.is_gold(child.hypothesis)
            look: dict[str, Any] = {"color": GOLD, "weight": "bold"} if gold else {"color": INK}
            axes.plot([child.x], [y], "s", markersize=4.5, color=look["color"])
            x = child.x + PERCENT
            write(x, y, percent(child.hypothesis.probability), **look, ha="right")
            if gold:
                write(x + GAP, y, "✓ gold", **look)
            write(x + GAP + (GOLD_MARK if gold else 0), y, _end_text(child), **look)
        axes.plot([root.x], [root.y], "o", markersize=4, color=INK)
        write(-0.05, top + 0.22, head)
        write(-0.05, bottom - 0.2, foot, fontsize=8.5, color=MUTED_INK)
        return canvas

    def describe(self, data: Row) -> str:
        example = lattice_example(data)
        listed = [f"{one.text!r} {percent(one.probability)}" for one in example.ranked]
        listed[MOST:] = [f"{len(listed) - MOST} more"] if len(listed) > MOST else []
        gold = f"{data['lemma']!r} ({data['language']}), gold {example.gold!r}"
        return f"Hypotheses for {gold}: {'; '.join(listed)}."

    def remark(self, data: Row) -> str:
        example = lattice_example(data)
        if example.finite:
            count = len(example.hypotheses)
            return f"Drawn are the {MOST} most probable of {count}." if count > MOST else ""
        return (
            "This figure shows the hypotheses of the beam only: the set is not complete, other "
            "strings may have nonzero probability."
        )


def names_of(row: Row) -> tuple[str, str]:
    """Return texts by which ``drawing.prefer`` selects an example: lemma, lemma and gold form."""
    return str(row["lemma"]), f"{row['lemma']} {row['gold']}"


def lattice_example(row: Row) -> LatticeExample:
    """Convert a row of ``hypotheses.jsonl``."""
    hypotheses = []
    for one in row["hypotheses"]:
        tokens = one["tokens"][:-1] if one["tokens"][-1:] == [END] else one["tokens"]
        hypotheses.append(Hypothesis(tuple(tokens), one["probability"], tuple(one["steps"])))
    gold, finite = str(row["gold"]), bool(row["finite"])
    return LatticeExample(row["index"], gold, finite, tuple(hypotheses))


def entropy(example: LatticeExample) -> float:
    """Compute the entropy in nats of the listed hypotheses, their probabilities normalized."""
    total = sum(hypothesis.probability for hypothesis in example.hypotheses)
    shares = [hypothesis.probability / total for hypothesis in example.hypotheses if total]
    return -sum(share * math.log(share) for share in shares if share > 0)


def build_tree(example: LatticeExample) -> Node:
    """Build the prefix tree of the ``MOST`` most probable hypotheses.

    Raises:
        ResultsError: there is no hypothesis, one is listed twice, or two disagree on the
            probability of a step that they share.
    """
    if not example.hypotheses:
        raise ResultsError(f"example {example.index} has no hypotheses")
    root = Node("", 1.0, half=HALF_LETTER)
    for hypothesis in example.ranked[:MOST]:
        node = root
        node.mass += hypothesis.probability
        for token, step in zip(hypothesis.tokens, hypothesis.steps, strict=False):
            same = [one for one in node.children if one.hypothesis is None and one.token == token]
            if not same:
                same = [Node(token, step)]
                node.children += same
            (node,) = same
            if abs(node.step - step) > TOLERANCE:
                raise ResultsError(
                    f"example {example.index}: hypotheses disagree on the step to {token!r}: "
                    f"{node.step:.4f} and {step:.4f}"
                )
            node.mass += hypothesis.probability
        ends = [child.hypothesis for child in node.children if child.hypothesis is not None]
        if any(end.finished == hypothesis.finished for end in ends):
            raise ResultsError(
                f"example {example.index}: the hypothesis {hypothesis.text!r} is listed twice"
            )
        step = hypothesis.steps[-1] if hypothesis.finished else 1.0
        node.children.append(Node("", step, hypothesis, mass=hypothesis.probability))
    for node in [root, *(child for _, child in walk(root))]:
        node.children.sort(key=lambda child: (-child.mass, child.token))
    return root


def place(root: Node) -> int:
    """Set the position of every node below ``root`` and return the number of lines of the tree.

    Arrows that leave a branching node are longer, for their labels.
    """
    line = root.y
    for child in root.children:
        child.half = HALF_LETTER * (len(token_label(child.token)) + 1)
        child.x = root.x + root.half + (BRANCH if root.branches else STEP) + child.half
        child.y = line
        line += place(child)
    return max(line - root.y, 1)


def walk(root: Node) -> Iterator[tuple[Node, Node]]:
    """Yield every edge of the tree as (parent, child), in depth-first order."""
    for child in root.children:
        yield root, child
        yield from walk(child)


def percent(probability: float) -> str:
    """Format a probability as ``66.4 %``; only 0 reads as zero, only 1 ± ``ROUNDING`` as one."""
    if 0 < probability < 0.0005:
        return "<0.1 %"
    if CERTAIN <= probability < 1 - ROUNDING:
        return ">99.9 %"
    return f"{100 * probability:.1f} %"


def _footer(example: LatticeExample) -> str:
    count = len(example.hypotheses)
    noun = "hypothesis" if count == 1 else "hypotheses"
    total = percent(min(sum(h.probability for h in example.hypotheses), 1.0))
    if example.finite:
        text = f"Complete: {count} {noun} with nonzero probability, all others zero."
        missing = "has probability zero"
    else:
        text = f"Beam only: {count} {noun} found, {total} of the probability."
        missing = "is not among them"
    text += f" Drawn: the {MOST} most probable." if count > MOST else ""
    return drawable(text if example.has_gold else f"{text} The gold form {example.gold} {missing}.")


def _end_text(end: Node) -> str:
    assert end.hypothesis is not None
    text = drawable(end.hypothesis.text.replace(" ", SPACE)) or "(empty)"
    return text if end.hypothesis.finished else f"{text} … (unfinished)"


FIGURES = {"lattice": Lattice()}

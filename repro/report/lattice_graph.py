"""Hypotheses merged by their common prefixes into a tree, and where its nodes lie."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from repro.report.canvas import token_label
from repro.report.examples import TOLERANCE, Hypothesis, LatticeExample
from repro.results import ResultsError

HALF_LETTER = 0.055


@dataclass
class Node:
    """A prefix of hypotheses.

    Attributes:
        token: its last token; blank for the start and for an end.
        step: probability of the step into this node.
        hypothesis: the complete hypothesis, at an end only.
        children: continuations, the most probable one first after :func:`build_tree`.
        mass: probability of all hypotheses that pass here.
        half: half the width of its letters, in inches.
        x: position along the string, from :func:`place`.
        y: line, from :func:`place`; the most probable continuation stays on the line.
    """

    token: str
    step: float
    hypothesis: Hypothesis | None = None
    children: list["Node"] = field(default_factory=list)
    mass: float = 0.0
    half: float = 0.0
    x: float = 0.0
    y: int = 0

    @property
    def branches(self) -> bool:
        """Whether more than one continuation is listed."""
        return len(self.children) > 1


def build_tree(example: LatticeExample, most: int) -> Node:
    """Merge the most probable hypotheses by their common prefixes.

    Args:
        example: its hypotheses, in any order.
        most: how many of them to keep.

    Raises:
        ResultsError: there is no hypothesis, one stands twice, or two disagree on the
            probability of a step that they share.
    """
    if not example.hypotheses:
        raise ResultsError(f"example {example.index} has no hypotheses")
    root = Node("", 1.0, half=HALF_LETTER)
    for hypothesis in example.ranked[:most]:
        _insert(root, hypothesis, example.index)
    _sort(root)
    return root


def place(root: Node, *, step: float, branch: float) -> int:
    """Set the position of every node below ``root``.

    Args:
        root: placed at zero.
        step: length of an arrow, in inches.
        branch: length of an arrow that leaves a branching node, where a label needs room.

    Returns:
        How many lines the tree takes.
    """
    line = root.y
    for child in root.children:
        child.half = HALF_LETTER * (len(token_label(child.token)) + 1)
        child.x = root.x + root.half + (branch if root.branches else step) + child.half
        child.y = line
        line += place(child, step=step, branch=branch)
    return max(line - root.y, 1)


def walk(root: Node) -> Iterator[tuple[Node, Node]]:
    """Every arrow of the tree as (parent, child), parents first."""
    for child in root.children:
        yield root, child
        yield from walk(child)


def _insert(root: Node, hypothesis: Hypothesis, index: int) -> None:
    node = root
    node.mass += hypothesis.probability
    for token, step in zip(hypothesis.tokens, hypothesis.steps, strict=False):
        node = _child(node, token, step, index)
        node.mass += hypothesis.probability
    ends = [child.hypothesis for child in node.children if child.hypothesis is not None]
    if any(end.finished == hypothesis.finished for end in ends):
        raise ResultsError(f"example {index}: the hypothesis {hypothesis.text!r} stands twice")
    step = hypothesis.steps[-1] if hypothesis.finished else 1.0
    node.children.append(Node("", step, hypothesis, mass=hypothesis.probability))


def _child(node: Node, token: str, step: float, index: int) -> Node:
    for child in node.children:
        if child.hypothesis is None and child.token == token:
            if abs(child.step - step) > TOLERANCE:
                raise ResultsError(
                    f"example {index}: hypotheses disagree on the step to {token!r}: "
                    f"{child.step:.4f} and {step:.4f}"
                )
            return child
    node.children.append(Node(token, step))
    return node.children[-1]


def _sort(node: Node) -> None:
    node.children.sort(key=lambda child: (-child.mass, child.token))
    for child in node.children:
        _sort(child)

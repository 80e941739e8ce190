"""Forced decoding as a run kept it: the steps along a target, and which example is shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from repro.data.segmentation import join_subwords
from repro.data.sentence_search import preference
from repro.report.examples import END
from repro.results import ResultsError

LONGEST = 16
"""Steps of a target that fit."""
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Step:
    """One step along the target.

    Attributes:
        target: the given symbol.
        probability: its probability.
        support: how many symbols have nonzero probability.
        alternatives: the most probable of these with their probabilities, by falling probability.
    """

    target: str
    probability: float
    support: int
    alternatives: tuple[tuple[str, float], ...]

    @property
    def completed(self) -> bool:
        """Whether the target is the only continuation."""
        return self.support == 1 and self.probability > 0


@dataclass(frozen=True)
class ForcedExample:
    """A source, and the steps along its target."""

    index: int
    language: str
    source: tuple[str, ...]
    steps: tuple[Step, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Texts by which a figure may ask for it: the source and the target."""
        target = [step.target for step in self.steps if step.target != END]
        return self.text, " ".join(join_subwords(target))

    @property
    def text(self) -> str:
        """The source in whole words."""
        return " ".join(join_subwords(self.source))

    @property
    def possible(self) -> bool:
        """Whether the whole target has nonzero probability."""
        return all(step.probability > 0 for step in self.steps)

    @property
    def changes(self) -> int:
        """How often a single continuation follows a choice, or a choice a single one."""
        return sum(one.completed != other.completed for one, other in pairwise(self.steps))


def choose_forced(rows: Sequence[Mapping[str, Any]], prefer: Sequence[str]) -> int:
    """Choose a preferred source, else the target that changes most between one and many.

    Targets of at most 16 symbols, all with nonzero probability, go first; among them the one where
    steps with a single continuation and steps with a choice take turns most often.

    Args:
        rows: of ``forced.jsonl`` of one run.
        prefer: sources or targets; case, spaces and punctuation do not matter.

    Returns:
        Position of the row; ties go to the lowest ``index``.

    Raises:
        ResultsError: there are no rows, or one is malformed.
    """
    examples = [forced_example(row) for row in rows]
    if not examples:
        raise ResultsError("the run kept no forced decoding to draw")

    def rank(example: ForcedExample) -> tuple[int, ...]:
        asked, fits = preference(example.names, prefer), len(example.steps) <= LONGEST
        return asked, not fits, not example.possible, -example.changes, example.index

    return min(range(len(examples)), key=lambda number: rank(examples[number]))


def forced_example(row: Mapping[str, Any]) -> ForcedExample:
    """Read one row of ``forced.jsonl``.

    Raises:
        ResultsError: a key is missing, or the numbers are no probabilities.
    """
    place = f"forced decoding of example {row.get('index')}"
    try:
        together = zip(row["target"], row["steps"], strict=True)
        example = ForcedExample(
            index=int(row["index"]),
            language=str(row["language"]),
            source=tuple(str(symbol) for symbol in row["source"]),
            steps=tuple(_step(str(symbol), step) for symbol, step in together),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ResultsError(f"{place}: missing or malformed: {error}") from error
    if not example.steps:
        raise ResultsError(f"{place}: expected at least one step")
    for number, step in enumerate(example.steps):
        _check_step(step, f"{place}, step {number}")
    return example


def _step(symbol: str, row: Mapping[str, Any]) -> Step:
    alternatives = tuple((str(token), float(share)) for token, share in row["alternatives"])
    return Step(symbol, float(row["probability"]), int(row["support"]), alternatives)


def _check_step(step: Step, place: str) -> None:
    shares = [share for _, share in step.alternatives]
    # Written so that NaN fails as well.
    proper = all(0 < share <= 1 + TOLERANCE for share in shares) and (
        0 <= step.probability <= 1 + TOLERANCE
    )
    total, listed = sum(shares), len(shares)
    if not (proper and total <= 1 + TOLERANCE and 1 <= listed <= step.support):
        raise ResultsError(f"{place}: expected probabilities and at most {step.support} of them")
    if listed == step.support and total < 1 - TOLERANCE:
        raise ResultsError(f"{place}: all probabilities sum to {total:.4f}, not to one")
    named = dict(step.alternatives)
    known = named.get(step.target, step.probability if listed < step.support else 0.0)
    if not abs(known - step.probability) <= TOLERANCE:
        raise ResultsError(f"{place}: {step.target!r} has two probabilities")

"""Kinds of figures: selection of runs and examples, drawing, and description in words."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Literal

from repro.config.experiment import OWN_SCALES
from repro.config.paths import declared_in
from repro.data.sentence_search import preference
from repro.report.figures.canvas import Canvas
from repro.results import OWN_SPLIT, ResultsError, RunFolder

Row = Mapping[str, Any]
VALIDATION = "dev"
RULE, OWN = "rule", "preferred"
"""Keys of a figure's data: the rule in words; whether ``drawing.prefer`` names an example."""
_SPLITS = {VALIDATION: "validation", "test": "test", "train": "training", OWN_SPLIT: "own"}


@dataclass(frozen=True)
class FigureRun:
    """Run of an experiment that a figure may show."""

    row: str  # label of its row
    seed: int  # seed of the run
    value: float  # value of the drawn metric
    folder: RunFolder  # folder of the run
    # Whether the figure shows the texts of `experiments/examples`, not of the corpus.
    own: bool = False
    config: Mapping[str, Any] = field(default_factory=dict)  # settings of the run

    @property
    def examples(self) -> RunFolder:
        """Folder of the examples that the figure may show."""
        return self.folder.own_examples if self.own else self.folder

    @property
    def mapping(self) -> str:
        """Name of the mapping of the attention; empty if the model has none."""
        return str((self.config.get("mapping") or {}).get("name", ""))


@dataclass(frozen=True)
class FigureRuns:
    """Runs of an experiment that a figure may show."""

    metric: str  # `drawing.best`, the metric by which runs are chosen
    # `drawing.prefer`, texts of the examples that are shown if the runs kept them.
    prefer: Sequence[str]
    best_of_rows: Sequence[FigureRun]  # for each row, in order, the run with the largest value
    every: Sequence[FigureRun]  # all runs, by row, then by seed

    @property
    def best(self) -> FigureRun:
        """Run with the largest value; ties go to the smallest identifier."""
        return min(self.best_of_rows, key=lambda run: (-run.value, run.folder.run_id))


NO_RUNS = FigureRuns("", (), (), ())
"""Input of figures that the library computes without any run."""


class Figure(ABC):
    """Base class of a kind of figure.

    Modules of :mod:`repro.report.figures` register instances by name in a dictionary ``FIGURES``.

    Attributes:
        rule: how examples are chosen that ``drawing.prefer`` does not name, in words.
        shows: the runs that are shown, in words; empty for a single run or none.
        reads: what the figure needs: ``"records"`` alone, the ``"examples"`` that runs kept, or
            other files of a ``"folder"``.
        description: the figure in words, if its data are always the same.
    """

    rule: ClassVar[str] = ""
    description: ClassVar[str] = ""
    shows: ClassVar[str] = ""
    reads: ClassVar[Literal["records", "examples", "folder"]] = "examples"

    @abstractmethod
    def gather(self, runs: FigureRuns) -> dict[str, Any]:
        """Collect the data to draw, serializable to JSON; some figures need no runs.

        Raises:
            ResultsError: the runs kept nothing that the figure can show.
        """

    @abstractmethod
    def draw(self, data: Row) -> Canvas:
        """Draw the data that :meth:`gather` returned."""

    def shows_own(self, scale: str) -> bool:
        """Return whether the figure shows the texts of ``experiments/examples`` at a scale."""
        return self.reads == "examples" and scale in OWN_SCALES

    def has_what_it_reads(self, folder: RunFolder, scale: str) -> bool:
        """Return whether what the figure needs of a recorded run is here."""
        if self.shows_own(scale) and folder.own_examples.path.exists():
            return True
        return self.reads == "records" or folder.done.exists()

    def describe(self, data: Row) -> str:
        """Return the figure in words, for screen readers; ``description`` by default."""
        return self.description

    def remark(self, data: Row) -> str:
        """Return a note to add to the caption: meaning of marks, missing parts."""
        return ""


@cache
def figure_kinds() -> dict[str, Figure]:
    """Collect all kinds of figures by name from the ``FIGURES`` of modules and extensions.

    Raises:
        ConfigError: two modules register the same name.
    """
    package = sys.modules[__name__.rpartition(".")[0]]  # with the folders of extensions
    return declared_in(package.__name__, package.__path__, "FIGURES", Figure)


def figure_kind(name: str) -> Figure:
    """Look up a kind of figure.

    Raises:
        ResultsError: no kind has this name.
    """
    kinds = figure_kinds()
    if name not in kinds:
        raise ResultsError(f"no drawing {name!r}; choose from: {', '.join(sorted(kinds))}")
    return kinds[name]


def ordered_examples(
    rows: Iterable[Row],
    prefer: Sequence[str],
    names: Callable[[Row], Sequence[str]],
    rank: Callable[[Row], tuple[float, ...]],
) -> list[dict[str, Any]]:
    """Sort examples in the order in which a figure shows them, and mark those of ``prefer``.

    Args:
        rows: examples that a run kept.
        prefer: texts of the examples to put first, ignoring case, spaces and punctuation.
        names: returns the texts by which ``prefer`` selects an example.
        rank: sort key, ascending, of the other examples, of which only those of validation and of
            ``experiments/examples`` are kept; ties go to the lowest ``index``.

    Raises:
        ResultsError: no example is left.
    """
    found = [(preference(names(row), prefer), row) for row in rows]
    last = len(prefer)
    splits = (VALIDATION, OWN_SPLIT)
    allowed = [(p, row) for p, row in found if p < last or split_of(row) in splits]
    if not allowed:
        raise ResultsError("the runs kept no examples to draw")
    allowed.sort(key=lambda one: (one[0], *rank(one[1]), one[1]["index"]))
    return [{**row, OWN: p < last} for p, row in allowed]


def split_of(row: Row) -> str:
    """Return the split of an example; rows without the key are validation examples."""
    return str(row.get("split", VALIDATION))


def place_of(row: Row) -> tuple[str, int]:
    """Return split and position of an example, which identify it.

    Raises:
        KeyError, TypeError, ValueError: ``index`` is missing or not a number.
    """
    return split_of(row), int(row["index"])


def place_in_words(row: Row) -> str:
    """Return split and position of an example in words, counted from one like lines of a file."""
    split, index = place_of(row)
    return f"{_SPLITS.get(split, split)} example {index + 1}"


def shown_examples(example: Row) -> Sequence[Row]:
    """Return the examples that a figure shows; none for curves."""
    parts = example.get("sentences") or example.get("pairs")
    return parts or ([example] if "index" in example else [])


def choice_in_words(example: Row) -> str:
    """Return which examples are the paper's own and which rule chose the others, if any did."""
    rule, shown = example.get(RULE), shown_examples(example)
    if not (rule and shown):
        return ""
    own = [place_in_words(one) for one in shown if one.get(OWN)]
    others = [place_in_words(one) for one in shown if not one.get(OWN)]
    found = f"The paper's own: {', '.join(own)}." if own else ""
    chosen = f"Chosen by a rule, {rule}: {', '.join(others)}." if others else ""
    return " ".join(part for part in (found, chosen) if part)

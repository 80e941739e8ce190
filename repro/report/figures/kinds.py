"""Kinds of figures: the runs that they show, the data of those runs, drawing and text."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar

import yaml

from repro.config.paths import declared_in
from repro.data.sentence_search import preference
from repro.report.figures.canvas import Canvas
from repro.results import Measurement, ResultsError, RunFolder

Row = Mapping[str, Any]
VALIDATION = "dev"
RULE, OWN = "rule", "preferred"
"""Keys of a figure's data: the rule in words; whether an example is the paper's own."""
MISSING = "missing"
"""Key of a figure's data where no example shows what the figure is about: says so."""
_SPLITS = {VALIDATION: "validation", "test": "test", "train": "training"}

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Faster where PyYAML has libyaml; builds no objects either."""


@dataclass(frozen=True)
class FigureRun:
    """A run of the experiment: its row and seed, its value of the drawn metric, its folder."""

    row: str
    seed: int
    value: float
    folder: RunFolder

    @cached_property
    def config(self) -> dict[str, Any]:
        """Settings of the run, as its folder keeps them."""
        found = yaml.load(self.folder.config.read_text(encoding="utf-8"), Loader=_LOADER)
        assert isinstance(found, dict)
        return found

    @property
    def mapping(self) -> str:
        """Name of the mapping of its attention; blank where the model has none."""
        return str((self.config.get("mapping") or {}).get("name", ""))


@dataclass(frozen=True)
class FigureRuns:
    """The runs of an experiment that a figure may show.

    Attributes:
        metric: ``drawing.best``, by which runs are chosen.
        prefer: ``drawing.prefer``, texts that are shown if a run has them.
        best_of_rows: the run with the largest value of each row, in the order of the rows.
        every: all runs, by row, then by seed.
    """

    metric: str
    prefer: Sequence[str]
    best_of_rows: Sequence[FigureRun]
    every: Sequence[FigureRun]

    @property
    def best(self) -> FigureRun:
        """The run with the largest value; ties go to the smallest identifier."""
        return min(self.best_of_rows, key=lambda run: (-run.value, run.folder.run_id))


NO_RUNS = FigureRuns("", (), (), ())
"""Input of figures that the library computes without a run."""


class Figure(ABC):
    """One kind of figure.

    A module of :mod:`repro.report.figures` makes its kinds known in ``FIGURES``, by name.

    Attributes:
        rule: how examples are chosen among those that nobody asked for, in words.
        shows: the runs that are shown, in words; blank where it is one run, or none.
        measured: keys of the data that are measured, such as times: they differ between calls.
        description: the figure in words, where its data are always the same.
    """

    rule: ClassVar[str] = ""
    description: ClassVar[str] = ""
    shows: ClassVar[str] = ""
    measured: ClassVar[Sequence[str]] = ()

    @abstractmethod
    def gather(self, runs: FigureRuns) -> dict[str, Any]:
        """Collect the data to draw, as JSON can hold it; a figure of the library needs no runs.

        Raises:
            ResultsError: the runs kept nothing that the figure could show.
        """

    @abstractmethod
    def draw(self, data: Row) -> Canvas:
        """Draw what :meth:`gather` returned."""

    def describe(self, data: Row) -> str:
        """The figure in a few words, for those who cannot see it; ``description`` by default."""
        return self.description

    def remark(self, data: Row) -> str:
        """Note for the reader besides the caption: marks that are drawn, missing parts."""
        return ""


@cache
def figure_kinds() -> dict[str, Figure]:
    """Every kind of figure by name: the ``FIGURES`` of all modules here and of extensions.

    Raises:
        ConfigError: two modules claim the same name.
    """
    import repro.report.figures as package  # which imports this module

    return declared_in(package.__name__, package.__path__, "FIGURES")


def figure_kind(name: str) -> Figure:
    """Look up a kind of figure.

    Raises:
        ResultsError: there is none of this name.
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
    """Examples in the order in which a figure shows them; each says whether it was asked for.

    Args:
        rows: examples that a run kept.
        prefer: texts that go first; case, spaces and punctuation do not matter.
        names: texts by which ``prefer`` may ask for an example.
        rank: smaller goes first among the others, which are validation examples only; ties go to
            the lowest ``index``.

    Raises:
        ResultsError: there are no such examples.
    """
    found = [(preference(names(row), prefer), row) for row in rows]
    last = len(prefer)
    allowed = [(p, row) for p, row in found if p < last or split_of(row) == VALIDATION]
    if not allowed:
        raise ResultsError("the runs kept no examples to draw")
    allowed.sort(key=lambda one: (one[0], *rank(one[1]), one[1]["index"]))
    return [{**row, OWN: p < last} for p, row in allowed]


def best_record(records: Sequence[Measurement], metric: str, experiment_name: str) -> Measurement:
    """The run's record with the largest value of a metric; ties go to the smallest ``run_id``.

    Raises:
        ResultsError: no run has a record of this metric.
    """
    candidates = [r for r in records if r.kind == "run" and r.metric == metric]
    if not candidates:
        raise ResultsError(f"{experiment_name}: no run has a record of {metric}")
    return min(candidates, key=lambda record: (-record.value, record.run_id))


def split_of(row: Row) -> str:
    """The split that an example is of; runs of earlier versions kept validation examples only."""
    return str(row.get("split", VALIDATION))


def place_of(row: Row) -> tuple[str, int]:
    """Split and position of an example, which identify it.

    Raises:
        KeyError, TypeError, ValueError: ``index`` is missing or no number.
    """
    return split_of(row), int(row["index"])


def place_in_words(row: Row) -> str:
    """Split and position of an example, counted from one as in the files of a corpus."""
    split, index = place_of(row)
    return f"{_SPLITS.get(split, split)} example {index + 1}"


def shown_examples(example: Row) -> Sequence[Row]:
    """The examples that a figure shows, each with split and position; none for curves."""
    parts = example.get("sentences") or example.get("pairs")
    return parts or ([example] if "index" in example else [])


def choice_in_words(example: Row) -> str:
    """Say which examples are the paper's own, and which rule chose the others.

    Blank where nothing was chosen, and for data of earlier versions, which hold no rule.
    """
    rule, shown = example.get(RULE), shown_examples(example)
    if not (rule and shown):
        return ""
    own = [place_in_words(one) for one in shown if one.get(OWN)]
    others = [place_in_words(one) for one in shown if not one.get(OWN)]
    found = f"The paper's own: {', '.join(own)}." if own else ""
    chosen = f"Chosen by a rule, {rule}: {', '.join(others)}." if others else ""
    return " ".join(part for part in (found, chosen) if part)

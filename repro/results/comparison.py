"""Comparisons of the rows of a table with its baseline, and their file."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pandas as pd

from repro.atomic import atomic_write_text
from repro.checksums import verify
from repro.results.csv_text import to_csv, unescape_formula
from repro.results.errors import ResultsError
from repro.results.layout import comparisons_path


@dataclass(frozen=True)
class Comparison:
    """One cell of a table against the cell of the baseline in the same column.

    Attributes:
        row: label of the row.
        column: name of the column.
        metric: of the column.
        baseline: label of the row that this one is compared with.
        runs: identities of the row's runs, joined by blanks, in the order of their seeds.
        baseline_runs: those of the baseline, of the same seeds.
        examples: number of examples that both predicted.
        difference: value of the row less that of the baseline, mean over the runs.
        p_bootstrap: of the paired bootstrap.
        p_randomisation: of approximate randomisation.
        signature: of both tests, joined by a blank.
    """

    row: str
    column: str
    metric: str
    baseline: str
    runs: str
    baseline_runs: str
    examples: int
    difference: float
    p_bootstrap: float
    p_randomisation: float
    signature: str

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ResultsError: a p-value lies outside of (0, 1], or there is no example.
        """
        if not (0 < self.p_bootstrap <= 1 and 0 < self.p_randomisation <= 1):
            raise ResultsError(f"p-values of {self.row}, {self.column} are not in (0, 1]")
        if self.examples < 1:
            raise ResultsError(f"{self.row}, {self.column}: expected at least one example")

    @property
    def identity(self) -> tuple[str, ...]:
        """What decides the numbers: the same identity gives the same numbers."""
        return (self.metric, self.runs, self.baseline_runs, self.signature)


_FIELDS = tuple(field.name for field in fields(Comparison))
_NUMBERS = {"examples": int, "difference": float, "p_bootstrap": float, "p_randomisation": float}


def write_comparisons(
    results_dir: Path, scale: str, experiment_name: str, comparisons: Iterable[Comparison]
) -> Path:
    """Replace the comparisons of one experiment at one scale; returns their file."""
    rows = sorted((asdict(one) for one in comparisons), key=lambda row: (row["row"], row["column"]))
    path = comparisons_path(results_dir, scale, experiment_name)
    frame = pd.DataFrame(rows, columns=list(_FIELDS))
    atomic_write_text(path, to_csv(frame), checksum=True)
    return path


def read_comparisons(results_dir: Path, scale: str, experiment_name: str) -> list[Comparison]:
    """What :func:`write_comparisons` wrote; none if there is no file.

    Raises:
        DamagedFileError: the file differs from its checksum.
        ResultsError: the file has other columns, or a line is malformed.
    """
    path = comparisons_path(results_dir, scale, experiment_name)
    if not path.exists():
        return []
    verify(path)
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, lineterminator="\n")
    except ValueError as error:
        raise ResultsError(f"{path}: not a CSV file ({error})") from error
    if tuple(frame.columns) != _FIELDS:
        raise ResultsError(f"{path}: expected the columns {', '.join(_FIELDS)}")
    rows = enumerate(frame.to_dict("records"), start=1)
    return [_parse(row, f"{path}: comparison {number}") for number, row in rows]


def _parse(row: dict[Any, str], place: str) -> Comparison:
    try:
        texts = {name: unescape_formula(text) for name, text in row.items()}
        numbers = {name: parse(row[name]) for name, parse in _NUMBERS.items()}
        return Comparison(**{**texts, **numbers})
    except (TypeError, ValueError, ResultsError) as error:
        raise ResultsError(f"{place}: {error}") from None

"""Paired tests between runs, and the file that caches them by the runs they compare."""

import csv
import io
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from repro.atomic import atomic_write_text
from repro.errors import ResultsError
from repro.results.layout import comparisons_path
from repro.results.record import check_types

Identity = tuple[str, str, str, str]
"""Metric, runs, runs of the baseline and signature of the test, which determine the result."""


@dataclass(frozen=True, order=True)
class Comparison:
    """Paired test of one metric between runs and those of a baseline, paired by seed.

    Raises:
        ResultsError: the p-value is outside (0, 1], or there is no example.
    """

    metric: str  # full name
    runs: str  # IDs of the runs, joined by spaces, in the order of their seeds
    baseline_runs: str  # IDs of the baseline's runs, of the same seeds
    signature: str  # signature of the test
    examples: int  # number of examples that both predicted
    difference: float  # value of the runs minus that of the baseline, mean over the seeds
    p_value: float  # p-value of approximate randomisation

    def __post_init__(self) -> None:
        check_types(Comparison, vars(self))
        if not 0 < self.p_value <= 1:
            raise ResultsError(f"p-value of {self.metric}, {self.runs} is not in (0, 1]")
        if self.examples < 1:
            raise ResultsError(f"{self.metric}, {self.runs}: expected at least one example")

    @property
    def identity(self) -> Identity:
        """Key of the comparison: equal keys give equal numbers."""
        return self.metric, self.runs, self.baseline_runs, self.signature


_PARSERS = (str, str, str, str, int, float, float)
_FIELDS = [field.name for field in fields(Comparison)]


def write_comparisons(results_dir: Path, scale: str, comparisons: Iterable[Comparison]) -> Path:
    """Replace the comparisons of one scale and return the path of their file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([_FIELDS, *(astuple(one) for one in sorted(comparisons))])
    path = comparisons_path(results_dir, scale)
    atomic_write_text(path, text.getvalue())
    return path


def read_comparisons(results_dir: Path, scale: str) -> dict[Identity, Comparison]:
    """Read the output of :func:`write_comparisons`; empty if there is no file.

    Raises:
        ResultsError: the file has other columns, or a line is malformed.
    """
    path = comparisons_path(results_dir, scale)
    if not path.exists():
        return {}
    text = path.read_text(encoding="utf-8", errors="replace")
    found, reader = [], csv.reader(io.StringIO(text), strict=True)
    try:
        if next(reader, None) != _FIELDS:
            raise ResultsError(f"expected the columns {', '.join(_FIELDS)}")
        for row in reader:
            values = (parse(text) for parse, text in zip(_PARSERS, row, strict=True))
            found.append(Comparison(*values))
    except (ValueError, csv.Error) as error:
        raise ResultsError(f"{path}:{max(1, reader.line_num)}: {error}") from error
    return {one.identity: one for one in found}

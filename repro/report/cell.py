"""Cells of a table: values of the runs, published value, and how both are formatted."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log10
from statistics import fmean, stdev
from typing import NamedTuple

from repro.evaluation.metrics import metric_of
from repro.results import Comparison, Measurement, Record

MISSING = "—"
FAILED = "failed"
FAILED_MARK = "!"
"""Mark of values that lack a seed because a run failed."""
BLANK = ""
SIGN, UNTESTED = "*", "°"
"""Signs of a significant difference from the baseline, and of a difference that is not tested."""
LEVEL = 0.05
"""Significance level: differences are significant, and verdicts decided, with p below it."""
COLLAPSE, COLLAPSE_RANGES = 10.0, 5.0
"""A seed has collapsed if it lies below all others by more than both: points, and ranges of the
others."""


MOST_DIGITS = 4
"""Most decimals that small values add to those of their metric."""


class CellRunLink(NamedTuple):
    """Run behind a cell: its seed or kind, its value as printed, and its ID."""

    label: str
    value: str
    run_id: str


@dataclass(frozen=True)
class Cell:
    """Values of one metric over the runs of one row and column."""

    values: tuple[float, ...]  # one per seed found, in the order of the seeds; one for an ensemble
    wanted: int  # number of values of a complete cell
    digits: int  # decimals with which the metric is printed
    published: float | None = None  # the value in the paper; None if it prints none
    comparable: bool = False  # whether the difference from the published value is meaningful
    comparison: Comparison | None = None  # paired test against the baseline; None without one
    # The standard deviation in the paper; None if it prints none.
    published_std: float | None = None
    marks: str = ""  # signs of the departures from the paper's protocol, explained below the table
    runs: tuple[CellRunLink, ...] = ()  # label, value and run of each value
    more_digits: int = 0  # extra decimals for measured values that would otherwise print as zero
    failed: bool = False  # whether a run of the cell failed
    untested: bool = False  # whether the cell could be compared with the baseline and is not

    @property
    def significant(self) -> bool:
        """Return whether the test finds a difference from the baseline."""
        return self.comparison is not None and self.comparison.p_value < LEVEL

    @property
    def found(self) -> int:
        """Number of values found."""
        return len(self.values)

    @property
    def mean(self) -> float | None:
        """Mean over the seeds found, None without any."""
        return fmean(self.values) if self.values else None

    @property
    def std(self) -> float | None:
        """Sample standard deviation (``n - 1``), None with fewer than two values."""
        return stdev(self.values) if self.found > 1 else None

    @property
    def difference(self) -> float | None:
        """Mean minus published value; None unless the two are comparable."""
        if self.mean is None or self.published is None or not self.comparable:
            return None
        return self.mean - self.published

    @property
    def text(self) -> str:
        """Format as ``mean* ± std``, plus ``(found/wanted)`` if incomplete; ``—`` without values.

        ``failed`` stands for a cell without values if a run failed.

        ``*`` marks a significant difference from the baseline, ``°`` one that is not tested; the
        marks of departures come last.
        """
        if self.mean is None:
            return FAILED if self.failed else MISSING
        digits = self.digits + self.more_digits
        spread = BLANK if self.std is None else f" ± {self.std:.{digits}f}"
        count = BLANK if self.found == self.wanted else f" ({self.found}/{self.wanted})"
        sign = SIGN if self.significant else UNTESTED * self.untested
        failed = FAILED_MARK if self.failed else BLANK
        return f"{self.mean:.{digits}f}{sign}{spread}{count}{self.marks}{failed}"

    @property
    def published_text(self) -> str:
        """Published ``value ± std`` with the digits of the metric; blank if there is none."""
        text = number_text(self.published, self.digits)
        if self.published_std is None:
            return text
        return f"{text} ± {number_text(self.published_std, self.digits)}"

    @property
    def difference_text(self) -> str:
        """Signed difference from the published value; blank if there is none."""
        if self.difference is None:
            return BLANK
        text = signed_text(self.difference, self.digits)
        return text[1:] if round(self.difference, self.digits) == 0 else text


def number_text(value: float | None, digits: int) -> str:
    """Format a number with ``digits`` decimals; blank for None."""
    return BLANK if value is None else f"{value:.{digits}f}"


def visible_digits(values: Sequence[float | None], digits: int) -> int:
    """Return the decimals with which no value but zero prints as zero: ``digits``, or more.

    That is two significant digits of the least value, at most four decimals.
    """
    least = min((abs(value) for value in values if value), default=1.0)
    hidden = least < 0.5 * 10.0**-digits
    return max(digits, min(ceil(-log10(least)) + 1, MOST_DIGITS)) if hidden else digits


def signed_text(value: float, digits: int) -> str:
    """Format a number with its sign, a minus sign in place of the hyphen."""
    return f"{value:+.{digits}f}".replace("-", "−")


def p_text(p: float) -> str:
    """Format a p-value."""
    return f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"


def run_link(run: Measurement | Record, value: float, metric: str) -> CellRunLink:
    """Build the link to a run: its seed (or kind), its value of the metric, its ID."""
    label = run.kind if run.seed is None else f"seed {run.seed}"
    return CellRunLink(label, number_text(value, metric_of(metric).digits), run.run_id)


def collapsed(values: Sequence[float]) -> bool:
    """Return whether the least of three or more seeds lies far below all others.

    That is more than 10 points, and more than five times the range of the others.
    """
    if len(values) < 3:
        return False
    least, *others = sorted(values)
    return others[0] - least > max(COLLAPSE, COLLAPSE_RANGES * (others[-1] - others[0]))

"""Verdicts on the claims of the papers, from the records of one scale, and their evidence."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property, reduce
from itertools import groupby
from math import ceil

import numpy as np
from numpy.typing import NDArray

from repro.config.claims import Bound, Claim, Order, Predicate, Spread, Within, load_claims
from repro.config.experiment import Axis, Experiment, load_experiment
from repro.evaluation.metrics import metric_of
from repro.report.cell import measured
from repro.report.table import CellKey, chosen_records, index_records
from repro.results import Archive, Measurement

DRAWS = 20_000
"""Number of simulated tables: a share near 0.05 then has a standard error of 0.0015."""
_SEED = 20_191
CONFIDENCE = 0.95
"""Least share of the simulated tables that must agree with a verdict."""
RATIO_DIGITS = 3
SHOWN_COLUMNS = 6
GENERATED = (
    "Judged on generated corpora: these verdicts say whether the suite shows an effect on its own "
    "demo data, and nothing about the papers."
)
METHOD = (
    "A claim holds, or does not, where at least 95 % of simulated tables agree; they vary as the "
    "means over other seeds would, with the standard deviation of each column pooled over its "
    "rows. p is the share of simulated tables that disagree. Verdicts from one seed rest on the "
    "measured values alone. p-values are not corrected for multiple comparisons."
)

Samples = NDArray[np.float64]
"""Means of a cell, shape ``(1 + DRAWS,)``: the measured one first, then the simulated ones."""


@dataclass(frozen=True)
class MeasuredCells:
    """Measured cells of one artefact at one scale, and means simulated from them.

    The mean of a cell over ``n`` seeds has the standard error ``σ / √n``. The standard deviation
    ``σ`` is that of one column and metric, pooled over its rows, since two or three seeds say
    little about the spread of one cell alone. Simulated means follow their posterior under a prior
    that is flat in the means and in ``log σ``: ``σ²`` is drawn as ``s² ν / χ²(ν)`` with ``ν``
    degrees of freedom, then each mean from a normal distribution; the mean of a single cell follows
    Student's t.

    Attributes:
        experiment: declares rows and columns.
        scale: scale of the records.
        records: measurements of the artefact at this scale.
    """

    experiment: Experiment
    scale: str
    records: Sequence[Measurement]

    @cached_property
    def _by_cell(self) -> dict[CellKey, list[Measurement]]:
        return index_records(chosen_records(self.experiment, self.records, self.scale))

    def samples(self, column: str, metric: str) -> tuple[dict[str, Samples], dict[str, int], bool]:
        """Return the measured and simulated means of one column.

        Returns:
            Samples by row, and the number of values behind each mean, both without rows that have
            no run; whether the spread is known, that is, any row has several values.
        """
        shown = next(one for one in self.experiment.columns if one.name == column)
        seeds = self.experiment.seeds_at(self.scale, column)
        values = {}
        for row in self.experiment.row_labels():
            runs = measured(self._by_cell.get((row, column, metric), []), shown, seeds)
            if runs:
                values[row] = [one.value for one in runs]
        freedom = sum(len(found) - 1 for found in values.values())
        squares = sum(float(np.var(found)) * len(found) for found in values.values())
        name = f"{self.experiment.name} {column} {metric}".encode()
        noise = np.random.default_rng([_SEED, *name])
        deviation = np.zeros(DRAWS)
        if freedom:
            deviation = np.sqrt(squares / noise.chisquare(freedom, DRAWS))
        means = {}
        for row, found in values.items():
            mean = float(np.mean(found))
            drawn = mean + deviation / len(found) ** 0.5 * noise.standard_normal(DRAWS)
            means[row] = np.concatenate([[mean], drawn])
        return means, {row: len(found) for row, found in values.items()}, freedom > 0


@dataclass(frozen=True)
class Contrast:
    """Predicate evaluated in one column, where it is true if ``margin`` is above zero.

    All samples have shape ``(1 + DRAWS,)``, the measured value first.

    Attributes:
        column: name of the column.
        metric: metric of the values.
        left: the value that the claim is about: a cell, a ratio of cells, or a range.
        right: the value that it is compared with: a cell, a limit, or another range.
        margin: distance from the predicate becoming false, in the unit of the values.
        seeds: smallest number of values behind a cell that is used.
        tested: whether the spread over seeds is known.
    """

    column: str
    metric: str
    left: Samples
    right: Samples
    margin: Samples
    seeds: int
    tested: bool


def contrasts(predicate: Predicate, cells: MeasuredCells) -> list[Contrast]:
    """Evaluate a predicate in each column that has a value in every cell it needs."""
    axes, columns = cells.experiment.rows, {one.name: one for one in cells.experiment.columns}
    match predicate:
        case Order():
            used = [*predicate.better, *predicate.than]
        case Bound():
            used = [*predicate.rows, *([predicate.relative_to] if predicate.relative_to else [])]
        case Within(rows=rows) if rows:
            used = rows
        case _:
            used = cells.experiment.row_labels()
    found = []
    for name in predicate.columns or columns:
        metric = predicate.metric or columns[name].metric
        means, seeds, tested = cells.samples(name, metric)
        if all(row in means for row in used):
            sides = _compare(predicate, axes, metric, {row: means[row] for row in used})
            fewest = min(seeds[row] for row in used)
            # A metric other than the column's own is named in the title.
            own = metric == columns[name].metric
            title = name if own else f"{metric.split('/')[1]}, runs of {name}:"
            found.append(Contrast(title, metric, *sides, fewest, tested))
    return found


def _compare(
    predicate: Predicate, axes: Sequence[Axis], metric: str, means: Mapping[str, Samples]
) -> tuple[Samples, Samples, Samples]:
    """Return left side, right side and margin in one column, from the means of the used rows."""
    match predicate:
        case Order():
            better = metric_of(metric).higher_is_better
            higher = better if predicate.direction is None else predicate.direction == "higher"
            sign = -1 if higher is False else 1
            # The worst row of `better` decides if every one has to be better, else the best.
            kept = np.minimum if predicate.every else np.maximum
            left = sign * reduce(kept, [sign * means[row] for row in predicate.better])
            right = sign * reduce(np.maximum, [sign * means[row] for row in predicate.than])
            return left, right, sign * (left - right) - predicate.by
        case Bound():
            # The margin is the least over rows and limits in each sample; the sides that are shown
            # are those with the least measured margin.
            reference = 1.0 if predicate.relative_to is None else means[predicate.relative_to]
            sides = []
            for value in (means[row] / reference for row in predicate.rows):
                for limit, sign in ((predicate.lowest, 1), (predicate.highest, -1)):
                    if limit is not None:
                        sides.append((value, np.full_like(value, limit), sign * (value - limit)))
            left, right, _ = min(sides, key=lambda side: side[2][0])
            return left, right, reduce(np.minimum, [margin for _, _, margin in sides])
        case Within():
            distance = np.ptp(np.stack([*means.values()]), axis=0)
            limits = np.full_like(distance, predicate.distance)
            return distance, limits, limits - distance
        case Spread():
            # Range over the labels of one axis, averaged over the labels of the others.
            grid = np.stack([*means.values()]).reshape(*(len(axis.values) for axis in axes), -1)
            names = [axis.name for axis in axes]
            left, right = (
                np.ptp(grid, axis=names.index(name)).reshape(-1, grid.shape[-1]).mean(0)
                for name in (predicate.axis, predicate.than)
            )
            return left, right, right - left
    raise TypeError(f"no such predicate: {type(predicate).__name__}")


class Verdict(StrEnum):
    """Outcome of comparing the measured values with a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    NOT_MEASURED = "not measured"

    @property
    def css(self) -> str:
        """CSS class of the verdict."""
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True)
class Judged:
    """Claim with its verdict and the evidence.

    Attributes:
        paper: name of the paper's folder.
        claim: the claim.
        experiment: the artefact whose cells decide it.
        verdict: outcome of the comparison.
        contrasts: one for each measured column.
        needed: number of columns in which the predicate must be true; 0 if the margin is averaged
            over columns instead.
        p: share of simulated tables that disagree with the measured ones on the claim; ``None`` if
            the spread over seeds is unknown.
        effect: mean measured margin over the columns, in the unit of the values; ``None`` without
            measured columns.
    """

    paper: str
    claim: Claim
    experiment: Experiment
    verdict: Verdict
    contrasts: tuple[Contrast, ...] = ()
    needed: int = 0
    p: float | None = None
    effect: float | None = None

    @property
    def seeds(self) -> int:
        """Smallest number of seeds behind a cell that was used."""
        return min((one.seeds for one in self.contrasts), default=0)

    @property
    def columns(self) -> tuple[int, int]:
        """Number of measured columns and number of columns that the claim is about."""
        wanted = self.claim.predicate.columns or self.experiment.columns
        return len(self.contrasts), len(wanted)

    @property
    def evidence(self) -> str:
        """Names of both sides of the comparison, and their values in each column."""
        if not self.contrasts:
            return ""
        (measured, wanted), parts = self.columns, []
        for one in self.contrasts[:SHOWN_COLUMNS]:
            digits = self._digits(one)
            parts.append(f"{one.column} {one.left[0]:.{digits}f} / {one.right[0]:.{digits}f}")
        if measured > SHOWN_COLUMNS:
            parts.append(f"{measured - SHOWN_COLUMNS} more columns")
        coverage = f" ({measured} of {wanted} columns measured)" if measured < wanted else ""
        return f"{_sides(self.claim.predicate)}: {'; '.join(parts)}{coverage}"

    @property
    def certainty(self) -> str:
        """Text with the number of seeds, p and the mean margin."""
        if self.effect is None:
            return ""
        digits = self._digits(self.contrasts[0])
        margin = f"margin {self.effect:+.{digits}f}".replace("-", "−")
        if self.p is None:
            return f"one seed; {margin}"
        p = f"p = {self.p:.3f}" if self.p >= 0.001 else "p < 0.001"
        return f"{self.seeds} seed{'s' if self.seeds > 1 else ''}; {p}; {margin}"

    def _digits(self, one: Contrast) -> int:
        predicate = self.claim.predicate
        relative = isinstance(predicate, Bound) and predicate.relative_to is not None
        return RATIO_DIGITS if relative else metric_of(one.metric).digits


def _sides(predicate: Predicate) -> str:
    """Describe both sides of a comparison."""

    def named(rows: Sequence[str], which: str) -> str:
        return rows[0] if len(rows) == 1 else f"{which} of {', '.join(rows)}"

    match predicate:
        case Order(better=better, than=than):
            extreme = "worst" if predicate.every else "best"
            return f"{named(better, extreme)} against {named(than, 'best')}"
        case Bound():
            ratio = f" ÷ {predicate.relative_to}" if predicate.relative_to else ""
            return f"{named(predicate.rows, 'least favourable')}{ratio}, and the limit"
        case Within():
            return "difference between the best and the worst row, and the limit"
        case Spread():
            return f"range over {predicate.axis}, and over {predicate.than}"
    raise TypeError(f"no such predicate: {type(predicate).__name__}")


@dataclass(frozen=True)
class ClaimsOfPaper:
    """Judged claims of one paper, with a text that counts the verdicts."""

    paper: str
    summary: str
    measured: tuple[Judged, ...]
    unmeasured: tuple[Judged, ...]


def judge_claims(archive: Archive) -> list[Judged]:
    """Judge every claim of every paper by the records of one scale.

    Raises:
        ConfigError: a file of claims or of experiments is malformed.
    """
    judged = []
    for paper in load_claims():
        for claim in paper.claims:
            experiment, cells = load_experiment(f"{paper.paper}/{claim.artefact}"), None
            if archive.scale in experiment.scales:
                records = archive.measurements(experiment)
                cells = MeasuredCells(experiment, archive.scale, records)
            judged.append(judge(paper.paper, claim, experiment, cells))
    return judged


def judge(paper: str, claim: Claim, experiment: Experiment, cells: MeasuredCells | None) -> Judged:
    """Judge one claim by the cells of an artefact, ``None`` if it does not have the scale.

    The predicate is evaluated on the measured means and on simulated ones, which vary as means
    over other seeds would (:class:`MeasuredCells`). The claim holds, or does not, if at least 95 %
    of the simulated tables say so. If some column has no cell with a second seed, the measured
    means alone decide, and ``p`` is ``None``.
    """
    found = [] if cells is None else contrasts(claim.predicate, cells)
    if not found:
        return Judged(paper, claim, experiment, Verdict.NOT_MEASURED)
    # If columns are missing, the claim keeps its share of columns that must agree.
    wanted = len(claim.predicate.columns or experiment.columns)
    share = Fraction(claim.predicate.at_least or wanted, wanted)
    needed = 0 if claim.predicate.average else ceil(share * len(found))
    margins = np.stack([one.margin for one in found])
    true = margins.mean(0) > 0 if needed == 0 else (margins > 0).sum(0) >= needed
    measured, simulated = bool(true[0]), float(true[1:].mean())
    tested = all(one.tested for one in found)
    verdict = Verdict.HOLDS if measured else Verdict.FAILS
    if tested:
        verdict = Verdict.HOLDS if simulated >= CONFIDENCE else Verdict.UNDECIDED
        verdict = Verdict.FAILS if simulated <= 1 - CONFIDENCE else verdict
    return Judged(
        paper=paper,
        claim=claim,
        experiment=experiment,
        verdict=verdict,
        contrasts=tuple(found),
        needed=needed,
        p=(1 - simulated if measured else simulated) if tested else None,
        effect=float(margins[:, 0].mean()),
    )


def claims_by_paper(judged: Sequence[Judged]) -> list[ClaimsOfPaper]:
    """Group verdicts by paper, keeping their order; those of a paper are consecutive."""
    found = []
    for paper, group in groupby(judged, lambda one: one.paper):
        claims = list(group)
        counts = Counter(one.verdict for one in claims)
        summary = ", ".join(
            f"{verdict} {counts[verdict]}" for verdict in Verdict if counts[verdict]
        )
        measured = tuple(one for one in claims if one.verdict is not Verdict.NOT_MEASURED)
        unmeasured = tuple(one for one in claims if one.verdict is Verdict.NOT_MEASURED)
        text = f"{len(claims)} claims: {summary}"
        found.append(ClaimsOfPaper(paper, text, measured, unmeasured))
    return found

"""Verdicts on the claims of the papers, from the records of one scale, and their evidence."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import groupby
from math import ceil

import numpy as np

from repro.config.claims import Bound, Claim, Order, Spread, Within, load_claims
from repro.config.experiment import Experiment, load_experiment
from repro.evaluation.metrics import metric_of
from repro.report.cell import number_text
from repro.report.claims.cells import MeasuredCells
from repro.report.claims.contrasts import Contrast, contrasts
from repro.results import Archive

CONFIDENCE = 0.95
"""A verdict is given where at least this share of the simulated tables agrees with it."""
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


class Verdict(StrEnum):
    """Outcome of comparing the measured values with a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    NOT_MEASURED = "not measured"

    @property
    def css(self) -> str:
        """Class of the verdict in the page."""
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict and the evidence.

    Attributes:
        paper: name of the paper's folder.
        claim: the claim.
        experiment: the artefact whose cells decide it.
        verdict: of the measured values.
        contrasts: one for each measured column.
        needed: in how many of these the predicate must be true; 0 where averages are compared.
        p: share of simulated tables that contradict the verdict (that contradict the measured
            direction where it is undecided); ``None`` where the spread over seeds is unknown.
        effect: mean margin over the columns, in the unit of the values; above zero where the
            measured values agree with the claim.
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
        """Fewest seeds behind a cell that was used."""
        return min((one.seeds for one in self.contrasts), default=0)

    @property
    def untested(self) -> bool:
        """Return whether the verdict rests on measured values whose spread is unknown."""
        return bool(self.contrasts) and self.p is None

    @property
    def columns(self) -> tuple[int, int]:
        """Number of measured columns, and of columns that the claim is about."""
        wanted = self.claim.predicate.columns or self.experiment.columns
        return len(self.contrasts), len(wanted)

    @property
    def evidence(self) -> str:
        """Both sides of the comparison by name, and their values in each column."""
        measured, wanted = self.columns
        if not measured:
            return ""

        def named(rows: Sequence[str], which: str) -> str:
            return rows[0] if len(rows) == 1 else f"{which} of {', '.join(rows)}"

        predicate = self.claim.predicate
        match predicate:
            case Order():
                extreme = "worst" if predicate.every else "best"
                sides = (
                    f"{named(predicate.better, extreme)} against {named(predicate.than, 'best')}"
                )
            case Bound():
                ratio = f" ÷ {predicate.relative_to}" if predicate.relative_to else ""
                sides = f"{named(predicate.rows, 'least favourable')}{ratio}, and the limit"
            case Within():
                sides = "difference between the best and the worst row, and the limit"
            case Spread():
                sides = f"range over {predicate.axis}, and over {predicate.than}"
            case _:
                raise TypeError(f"no such predicate: {type(predicate).__name__}")
        parts = []
        for one in self.contrasts[:SHOWN_COLUMNS]:
            left, right = (
                number_text(float(v[0]), self._digits(one)) for v in (one.left, one.right)
            )
            parts.append(f"{one.column} {left} / {right}")
        if measured > len(parts):
            parts.append(f"{measured - len(parts)} more columns")
        coverage = f" ({measured} of {wanted} columns measured)" if measured < wanted else ""
        return f"{sides}: {'; '.join(parts)}{coverage}"

    @property
    def certainty(self) -> str:
        """Seeds, p and mean margin, in words."""
        if self.effect is None:
            return ""
        digits = self._digits(self.contrasts[0])
        margin = f"margin {self.effect:+.{digits}f}".replace("-", "−")
        if self.p is None:
            return f"one seed; {margin}" if self.untested else margin
        p = f"p = {self.p:.3f}" if self.p >= 0.001 else "p < 0.001"
        return f"{self.seeds} seed{'s' if self.seeds > 1 else ''}; {p}; {margin}"

    def _digits(self, one: Contrast) -> int:
        predicate = self.claim.predicate
        relative = isinstance(predicate, Bound) and predicate.relative_to is not None
        return RATIO_DIGITS if relative else metric_of(one.metric).digits


@dataclass(frozen=True)
class ClaimsOfPaper:
    """The claims of one paper.

    Attributes:
        paper: name of the paper's folder.
        summary: how many claims have each verdict, in words.
        measured: claims with a verdict.
        unmeasured: claims without measured cells at this scale.
    """

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
    """Judge one claim.

    The predicate is evaluated on the measured means and on simulated ones, which vary as means
    over other seeds would (:class:`MeasuredCells`). The claim holds, or does not, where at least
    95 % of the simulated tables say so; where no cell has a second seed the measured means alone
    decide, and ``p`` is ``None``.

    Args:
        paper: name of the paper's folder.
        claim: its predicate names cells of ``experiment``.
        experiment: the artefact.
        cells: its measured cells; ``None`` if the artefact does not exist at the scale.
    """
    found = [] if cells is None else contrasts(claim.predicate, cells)
    if not found:
        return Judged(paper, claim, experiment, Verdict.NOT_MEASURED)
    # Columns in which the predicate must be true: the paper's share of the measured ones.
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
    """Lay out verdicts by paper, in their order."""
    found = []
    for paper, group in groupby(judged, lambda one: one.paper):
        claims = list(group)
        counts = {verdict: sum(one.verdict is verdict for one in claims) for verdict in Verdict}
        summary = ", ".join(f"{verdict} {count}" for verdict, count in counts.items() if count)
        parts: dict[bool, list[Judged]] = {True: [], False: []}
        for one in claims:
            parts[one.verdict is not Verdict.NOT_MEASURED].append(one)
        text = f"{len(claims)} claims: {summary}"
        found.append(ClaimsOfPaper(paper, text, tuple(parts[True]), tuple(parts[False])))
    return found

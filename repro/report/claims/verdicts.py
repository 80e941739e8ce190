"""Verdicts on the claims of the papers, from the records of one scale."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import ceil

import numpy as np

from repro.config.claims import Claim, load_claims
from repro.config.experiment import Experiment, load_experiment
from repro.report.claims.cells import MeasuredCells
from repro.report.claims.contrasts import Contrast, contrasts
from repro.results import Archive

CONFIDENCE = 0.95
"""A verdict is given where at least this share of the simulated tables agrees with it."""


class Verdict(StrEnum):
    """Outcome of comparing the measured values with a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    NOT_MEASURED = "not measured"


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


def judge_claims(archive: Archive) -> list[Judged]:
    """Judge every claim of every paper by the records of one scale.

    Raises:
        ConfigError: a file of claims or of experiments is malformed.
    """
    return [
        judge(paper.paper, claim, *_measured(archive, f"{paper.paper}/{claim.artefact}"))
        for paper in load_claims()
        for claim in paper.claims
    ]


def _measured(archive: Archive, name: str) -> tuple[Experiment, MeasuredCells | None]:
    experiment = load_experiment(name)
    if archive.scale not in experiment.scales:
        return experiment, None
    return experiment, MeasuredCells(experiment, archive.scale, archive.measurements(experiment))


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
    needed = 0 if claim.predicate.average else _needed(claim, experiment, len(found))
    margins = np.stack([one.margin for one in found])
    true = margins.mean(0) > 0 if needed == 0 else (margins > 0).sum(0) >= needed
    tested = all(one.tested for one in found)
    share = float(true[1:].mean())
    verdict = _verdict(bool(true[0]), share if tested else None)
    against = 1 - share if bool(true[0]) else share
    return Judged(
        paper=paper,
        claim=claim,
        experiment=experiment,
        verdict=verdict,
        contrasts=tuple(found),
        needed=needed,
        p=against if tested else None,
        effect=float(margins[:, 0].mean()),
    )


def _needed(claim: Claim, experiment: Experiment, measured: int) -> int:
    """Columns in which the predicate must be true: the paper's share of the measured ones."""
    wanted = len(claim.predicate.columns or experiment.columns)
    share = Fraction(claim.predicate.at_least or wanted, wanted)
    return ceil(share * measured)


def _verdict(measured: bool, share: float | None) -> Verdict:
    if share is None:
        return Verdict.HOLDS if measured else Verdict.FAILS
    if share >= CONFIDENCE:
        return Verdict.HOLDS
    return Verdict.FAILS if share <= 1 - CONFIDENCE else Verdict.UNDECIDED


def count_verdicts(judged: Sequence[Judged]) -> dict[Verdict, int]:
    """Count the claims of each verdict, in the order of :class:`Verdict`."""
    return {verdict: sum(one.verdict is verdict for one in judged) for verdict in Verdict}

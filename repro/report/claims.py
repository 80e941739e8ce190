"""Verdicts on the claims of the papers, from the records of one scale, and their evidence."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from repro.config.claims import Claim, Spread, load_claims
from repro.config.experiment import Experiment, load_experiment
from repro.report.cell import LEVEL, p_text, signed_text
from repro.report.contrasts import Contrast, Outcome, at_least, tested
from repro.report.table import MeasuredCells
from repro.results import Archive

SHOWN_COLUMNS = 6
GENERATED = (
    "Judged on generated corpora: these verdicts say whether the suite shows an effect on its own "
    "demo data, and nothing about the papers."
)
METHOD = (
    "A claim holds, or does not, where a one-sided t-test over seeds rejects the contrary with "
    "p < 0.05, and is undecided otherwise. Every row has a variance of its own (Welch's test); "
    "rows with the same three or more seeds of one version of the code are compared seed by seed. "
    "A claim about several rows or columns has the joint p-value of its parts, with Bonferroni's "
    "correction where any of them would do, so that the best of several rows gains nothing by "
    "chance. A row that stands for the best configuration is the paper's best, fixed in advance, "
    "or the one with the best mean on validation data. Unmeasured columns count as unknown, and "
    'one seed decides nothing. p is that of the measured answer: of "holds" if the measured '
    'values agree with the claim, else of "does not hold"; where columns are unmeasured, that of '
    "the measured column on which the answer depends, so that it may be small although the claim "
    "is undecided. The margin is the distance of this contrast from the limit of the claim, with a "
    "95 % confidence bound on either side, 90 % for both together; unlike p, the bounds have no "
    "correction for other rows and columns. Columns bear the paper's "
    "names; below full scale the notes of each artefact say on which corpora and with which models "
    "they are measured. p-values are not corrected for the number of claims: of thirty measured "
    "claims, one or two may be decided by chance."
)


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
        columns: test in each measured column; a single one if means over columns are compared.
        deciding: the test that decides; of the claim, or of a column if too few are measured.
        reason: why the claim is undecided whatever the p-value; blank for no such reason.
    """

    paper: str
    claim: Claim
    experiment: Experiment
    verdict: Verdict
    columns: tuple[Outcome, ...] = ()
    deciding: Outcome | None = None
    reason: str = ""

    @property
    def contrasts(self) -> tuple[Contrast, ...]:
        """The deciding contrast of each measured column."""
        return tuple(one.deciding for one in self.columns)

    @property
    def p(self) -> float | None:
        """p-value of the measured answer; ``None`` if the spread over seeds is unknown."""
        return None if self.deciding is None else self.deciding.p

    @property
    def seeds(self) -> int:
        """Smallest number of seeds behind a cell that was used."""
        return min((one.seeds for one in self.columns), default=0)

    @property
    def evidence(self) -> str:
        """Sentences with the measured and the published values of each column."""
        sentences = [one.sentence for one in self.contrasts[:SHOWN_COLUMNS]]
        if more := len(self.contrasts) - len(sentences):
            sentences.append(f"{more} more columns")
        notes = [one.note for one in self.contrasts if one.note]
        return ". ".join(["; ".join(sentences), *notes]) + "." if sentences else ""

    @property
    def certainty(self) -> str:
        """Text with the number of seeds, p, the margin and its bounds, and what is lacking."""
        if self.deciding is None:
            return ""
        one, parts = self.deciding.deciding, [self.reason] * bool(self.reason)
        parts += [f"{self.seeds} seeds"] * (self.seeds > 1)
        if self.p is not None:
            parts.append(p_text(self.p))
        margin = f"margin {signed_text(one.margin, one.digits)}"
        if one.interval is not None:
            low, high = (signed_text(end, one.digits) for end in one.interval)
            margin += f" ({low} to {high})"
        return "; ".join([*parts, margin])


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

    The claim holds if the measured values would be unlikely (p < 0.05) were it false, and does not
    hold if they would be were it true (:func:`at_least`). Otherwise, and where the data of the
    scale are declared too small, it is undecided.
    """
    predicate, names = claim.predicate, [column.name for column in experiment.columns]
    if predicate is None or cells is None:
        return Judged(paper, claim, experiment, Verdict.NOT_MEASURED)
    columns = [one for one in experiment.columns if one.name in (predicate.columns or names)]
    outcomes = [(one, tested(cells, predicate, [one])) for one in columns]
    found = [one for one, test in outcomes if test is not None]
    if not found:
        return Judged(paper, claim, experiment, Verdict.NOT_MEASURED)
    tests, whole = [one for _, one in outcomes if one is not None], len(found) == len(columns)
    true = sum(one.true for one in tests)
    counted = (
        f": true in {true} of them" if len(tests) > 1 else f":{'' if true else ' not'} true there"
    )
    if predicate.average:
        mean, counted = tested(cells, predicate, found), ""
        assert mean is not None
        # The mean over some of the columns says nothing about the mean over all.
        tests, joint = [mean], mean if whole else mean._replace(p_true=1.0, p_false=1.0)
    else:
        joint = at_least(predicate.at_least or len(columns), tests, len(columns))
    small, verdict = experiment.scales[cells.scale].too_small, Verdict.UNDECIDED
    if not small:
        verdict = Verdict.HOLDS if joint.p_true < LEVEL else verdict
        verdict = Verdict.FAILS if joint.p_false < LEVEL else verdict
    undecided, reasons = verdict is Verdict.UNDECIDED, [small] if small else []
    if not whole:
        reasons.append(f"{len(found)} of {len(columns)} columns measured{counted}")
        if undecided:
            joint = next(one for one in tests if one.deciding is joint.deciding)
    if undecided and joint.seeds < 2:
        common = isinstance(predicate, Spread)
        reasons.append("fewer than two seeds in common" if common else "one seed")
    return Judged(
        paper=paper,
        claim=claim,
        experiment=experiment,
        verdict=verdict,
        columns=tuple(tests),
        deciding=joint,
        reason="; ".join(reasons),
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

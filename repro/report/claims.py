"""Verdicts on the claims of the papers, from the records of one scale, and their evidence."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from statistics import fmean

from repro.config.claims import Bound, Claim, Predicate, load_claims
from repro.config.experiment import Column, Experiment, load_experiment
from repro.evaluation.metrics import metric_of
from repro.report.cell import LEVEL, number_text, p_text, signed_text
from repro.report.contrasts import Contrast, Outcome, every, tested
from repro.report.provenance import GENERATED_SCALE
from repro.report.table import MeasuredCells
from repro.results import Archive
from repro.results.timed import SPEEDS, TimedUpdates

GENERATED = (
    "Judged on generated corpora: these verdicts say whether the suite shows an effect on its own "
    "demo data, and nothing about the papers."
)
METHOD = (
    "A claim holds, or does not, where a one-sided t-test over seeds rejects the contrary with "
    "p < 0.05, and is undecided otherwise. Means over the columns of one metric are compared, with "
    "the number of columns that agree beside; below full scale over the columns that the scale "
    "runs, whose number is named. Every row has a variance of its own (Welch's test); "
    "rows with the same three or more seeds of one version of the code are compared seed by seed, "
    "ensembles language by language. A claim about several rows or metrics holds if all of its "
    "parts do, and does not hold by the largest deficit among the rows (Tukey's range test) or, "
    "of several metrics, with Bonferroni's correction. Effects of two axes are compared by a "
    "two-way analysis of variance. A row that stands for the best configuration is the paper's "
    "best, fixed in advance, or the one with the best mean on validation data. Limits are the "
    "published values, five points apart. Nothing is decided by one seed, by a model whose "
    "baseline is more than five points worse than the paper's, or about speeds that were not "
    "measured by updates in turn. p is that of the measured answer, the margin is the distance "
    "from the limit of the claim, with a 95 % confidence bound on either side, 90 % for both "
    "together; unlike p, the bounds have no correction for other rows and metrics. An undecided "
    "claim names the margin that would be decided with a probability of 80 %, and the seeds that "
    "the published difference needs where five are too few. Columns bear the paper's names; below "
    "full scale the notes of each artefact say on which corpora and with which models they are "
    "measured. p-values are not corrected for the number of claims: if no difference were real, up "
    "to one claim in ten would be decided by chance, half of them either way."
)
LEAST_POINTS = 5.0
"""Points by which the baseline of a table may be worse than the paper's."""
NO_TIMING = "no paired timing"


class Verdict(StrEnum):
    """Outcome of comparing the measured values with a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    NOT_MEASURED = "not measured"
    NO_PREDICATE = "no predicate"

    @property
    def css(self) -> str:
        """CSS class of the verdict."""
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True)
class Judged:
    """Claim with its verdict and the evidence."""

    paper: str  # name of the paper's folder
    claim: Claim
    experiment: Experiment  # the artefact whose cells decide it
    verdict: Verdict  # outcome of the comparison
    word: str  # the verdict, or what keeps the claim from one, in a few words
    parts: tuple[Outcome, ...] = ()  # test of each measured metric, on means over its columns
    deciding: Outcome | None = None  # the test that decides, or of a part if too few are measured
    reason: str = ""  # why the claim is not decided whatever the p-value; blank for no such reason
    # Numbers of columns that agree with the claim by themselves, that are measured, and that the
    # claim is about at full scale.
    columns: tuple[int, int, int] = (0, 0, 0)

    @property
    def contrasts(self) -> tuple[Contrast, ...]:
        """The deciding contrast of each part."""
        return tuple(one.deciding for one in self.parts)

    @property
    def p(self) -> float | None:
        """p-value of the measured answer; ``None`` if the spread over seeds is unknown."""
        return None if self.deciding is None else self.deciding.p

    @property
    def seeds(self) -> int:
        """Smallest number of seeds, languages or repetitions behind a cell that was used."""
        return min((one.seeds for one in self.parts), default=0)

    @property
    def coverage(self) -> str:
        """Text with the columns that agree and those that are measured; blank for one column."""
        true, measured, whole = self.columns
        texts = [f"{measured} of {whole} columns"] * (measured < whole)
        texts += [f"true in {true} of {measured}"] * (measured > 1)
        return ", ".join(texts)

    @property
    def needed(self) -> str:
        """Text with the seeds that the published difference needs; blank if five are enough."""
        needed = self.claim.seeds_needed
        return f"the published difference needs about {needed} seeds" if needed else ""

    @property
    def without(self) -> str:
        """Why the claim has no verdict, if there is a reason, and what it needs."""
        return "; ".join(filter(None, (self.claim.as_published, self.reason, self.needed)))

    @property
    def evidence(self) -> str:
        """Sentences with the measured and the published values of each part."""
        sentences = [one.sentence for one in self.contrasts]
        notes = [one.note for one in self.contrasts if one.note]
        return ". ".join(["; ".join(sentences), *notes]) + "." if sentences else ""

    @property
    def certainty(self) -> str:
        """Text with what is lacking, columns, seeds, p, the margin and its bounds, and power."""
        parts = [text for text in (self.reason, self.coverage) if text]
        if self.deciding is None:
            return "; ".join(parts)
        one = self.deciding.deciding
        timed = is_timed(self.claim, self.experiment)
        unit = "languages" if one.languages else "repetitions" if timed else "seeds"
        parts += [f"{self.seeds} {unit}"] * (self.seeds > 1)
        if self.p is not None:
            parts.append(p_text(self.p))
        margin = f"margin {signed_text(one.margin, one.digits)}"
        if one.interval is not None:
            low, high = (signed_text(end, one.digits) for end in one.interval)
            margin += f" ({low} to {high})"
        parts.append(margin)
        if self.verdict is Verdict.UNDECIDED and not self.reason and one.visible is not None:
            parts.append(f"visible from {signed_text(one.visible, one.digits)}")
            parts += [self.needed] * bool(self.needed)
        return "; ".join(parts)


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
        ResultsError: a record of speeds is malformed.
    """
    judged, updates = [], TimedUpdates(archive)
    for paper in load_claims():
        for claim in paper.claims:
            experiment, cells = load_experiment(f"{paper.paper}/{claim.artefact}"), None
            if archive.scale in experiment.scales:
                timed = is_timed(claim, experiment)
                records = updates.speeds if timed else archive.measurements
                cells = MeasuredCells(experiment, archive.scale, records(experiment))
            judged.append(judge(paper.paper, claim, experiment, cells))
    archive.plans.save()  # a report judges the other scales as well
    return judged


def is_timed(claim: Claim, experiment: Experiment) -> bool:
    """Return whether a claim is about speed: judged by updates in turn, repeated, without seeds."""
    if (predicate := claim.predicate) is None:
        return False
    names = predicate.columns or [one.name for one in experiment.columns]
    metrics = {predicate.metric or one.metric for one in experiment.columns if one.name in names}
    return not SPEEDS.isdisjoint(metrics)


def judge(paper: str, claim: Claim, experiment: Experiment, cells: MeasuredCells | None) -> Judged:
    """Judge one claim by the cells of an artefact, ``None`` if it does not have the scale.

    The claim holds if the measured values would be unlikely (p < 0.05) were it false, and does not
    hold if they would be were it true (:func:`every`). Otherwise, and where the baseline is far
    below the paper's, it is undecided.
    """
    predicate, names = claim.predicate, [column.name for column in experiment.columns]
    if predicate is None:
        return Judged(paper, claim, experiment, Verdict.NO_PREDICATE, Verdict.NO_PREDICATE)
    wanted = [one for one in experiment.columns if one.name in (predicate.columns or names)]
    planned = {one.name for one in experiment.columns_at(cells.scale)} if cells else set()
    columns = [one for one in wanted if one.name in planned]
    by_column = {one.name: tested(cells, predicate, [one]) for one in columns} if cells else {}
    measured = [one for one in columns if by_column.get(one.name) is not None]
    if cells is None or not measured:
        lacking = NO_TIMING if is_timed(claim, experiment) else ""
        absent = Verdict.NOT_MEASURED
        return Judged(paper, claim, experiment, absent, lacking or absent, reason=lacking)
    columns = measured if predicate.each else columns
    # A mean needs one unit: columns of a metric go together, those of several test sets, too.
    groups, parts, shown = defaultdict[str, list[Column]](list), [], []
    for one in columns:
        groups[(predicate.metric or one.metric).partition("/")[2]].append(one)
    for group in groups.values():
        if found := [one for one in group if one in measured]:
            test = tested(cells, predicate, found)
            assert test is not None
            shown.append(test)
            # The mean over some of the columns says nothing about the mean over all.
            parts.append(test if found == group else test._replace(p_true=1.0, p_false=1.0))
    joint, some = every(parts, len(groups)), len(measured) < len(columns)
    small = "" if cells.scale == GENERATED_SCALE else _too_small(cells, measured)
    reasons = [small, f"{len(measured)} of {len(columns)} columns measured" * some]
    if not small and min(joint.p_true, joint.p_false) < LEVEL:
        verdict = Verdict.FAILS if joint.p_false < LEVEL else Verdict.HOLDS
        word = f"{verdict}"
    else:
        verdict = Verdict.UNDECIDED
        joint = next(one for one in shown if one.deciding is joint.deciding)
        reasons += ["one seed"] * (joint.seeds < 2)
        word = "baseline too low" if small else _undecided(joint, some, predicate)
    place = f", on {len(measured)} of the paper's {len(wanted)} columns"
    word += place * (len(measured) < len(wanted))
    agree = sum(one.true for one in by_column.values() if one), len(measured), len(wanted)
    reason = "; ".join(filter(None, reasons))
    return Judged(paper, claim, experiment, verdict, word, tuple(shown), joint, reason, agree)


def _undecided(one: Outcome, some: bool, predicate: Predicate) -> str:
    """Say in a few words why a test decides nothing; ``some``: not all columns are measured."""
    if some:
        return f"so far {'yes' if one.true else 'no'}"
    if (visible := one.deciding.visible) is None:
        return "one seed"
    why = "too close to the limit" if isinstance(predicate, Bound) else "no difference seen"
    return f"{why} (± {number_text(visible, one.deciding.digits)})"


def _too_small(cells: MeasuredCells, columns: Sequence[Column]) -> str:
    """Name the column whose baseline is worst beside the paper's; blank if none is far worse."""
    experiment, found = cells.experiment, {}
    if (row := experiment.baseline) is None:
        return ""
    for one in columns:
        metric, runs = metric_of(one.metric), cells.shown(row, one)
        printed = experiment.published.rows.get(row, {}).get(one.name)
        in_points = metric.unit == "%" or metric.signature.startswith("bleu|")
        if in_points and metric.higher_is_better is not None and printed is not None and runs:
            gap = printed - fmean(run.value for run in runs)
            found[one.name] = gap if metric.higher_is_better else -gap
    worst = max(found, key=lambda name: found[name], default="")
    if not worst or found[worst] <= LEAST_POINTS:
        return ""
    return f"{worst} of {row} is {found[worst]:.1f} points worse than the paper's"


def counts(judged: Sequence[Judged]) -> str:
    """Count claims by their verdicts."""
    found = Counter(one.verdict for one in judged)
    parts = [f"{verdict} {found[verdict]}" for verdict in Verdict if found[verdict]]
    return f"{len(judged)} claims: {', '.join(parts)}"


def claims_by_paper(judged: Sequence[Judged]) -> list[ClaimsOfPaper]:
    """Group verdicts by paper, keeping their order; those of a paper are consecutive."""
    found = []
    for paper, group in groupby(judged, lambda one: one.paper):
        claims = list(group)
        absent = (Verdict.NOT_MEASURED, Verdict.NO_PREDICATE)
        measured = tuple(one for one in claims if one.verdict not in absent)
        unmeasured = tuple(one for one in claims if one.verdict in absent)
        found.append(ClaimsOfPaper(paper, counts(claims), measured, unmeasured))
    return found

"""All claims in one table: what the papers print, and the verdict at each scale."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from repro.config.claims import Bound, Order, load_claims
from repro.report.cell import number_text, signed_text
from repro.report.claims import Judged, Verdict, judge, judge_claims
from repro.report.contrasts import Outcome
from repro.report.provenance import FULL_SCALE
from repro.report.table import CellKey, MeasuredCells
from repro.results import Archive, Measurement
from repro.results.layout import record_path

SCALES = ("small", "subset", FULL_SCALE)
"""Scales with real corpora, the weakest evidence first."""
SIGNS = {Verdict.HOLDS: "●", Verdict.FAILS: "✕", Verdict.UNDECIDED: "○"}
NONE = "·"
LEGEND = (
    "● holds, ✕ does not hold, ○ measured without a verdict, · not measured. “Published” applies "
    "the same rule to the values that the paper prints, without their spread. The last columns are "
    "those of the largest scale that decides, or else that measures."
)
_DECIDED = (Verdict.HOLDS, Verdict.FAILS)
_ANSWERS = {Verdict.HOLDS: "yes", Verdict.FAILS: "no"}


class Line(NamedTuple):
    """Claim and its verdicts."""

    authors: str  # authors of the paper
    strongest: Judged  # verdict at the largest scale that decides, or else that measures
    scale: str  # name of that scale; blank if the claim is not measured
    published: Outcome | None  # of the rule for the published values; None if one is not printed
    signs: tuple[str, ...]  # sign at each scale of SCALES

    @property
    def published_sign(self) -> str:
        """Sign of the published values."""
        if self.published is None:
            return NONE
        return SIGNS[Verdict.HOLDS if self.published.true else Verdict.FAILS]


def claims_matrix(results_dir: Path, known: Mapping[str, Sequence[Judged]]) -> list[Line]:
    """Judge the claims at all scales; decided ones come first, then measured ones.

    The verdicts of the scales in ``known`` are taken from there. The result is empty if no claim is
    measured at a scale with real corpora.

    Raises:
        ConfigError: a file of claims or of experiments is malformed.
        ResultsError: a record is malformed.
    """
    by_scale = {
        scale: known.get(scale) or judge_claims(Archive(results_dir, scale))
        for scale in SCALES
        if scale in known or any(record_path(results_dir, scale, "").parent.glob("*.json"))
    }
    authors = {one.paper: one.reference.authors for one in load_claims() if one.reference}
    lines = []
    for verdicts in zip(*by_scale.values(), strict=True):
        found = dict(zip(by_scale, verdicts, strict=True))
        measured = [scale for scale, one in found.items() if one.verdict in SIGNS]
        decided = [scale for scale in measured if found[scale].verdict in _DECIDED]
        scale = (decided or measured or [""])[-1]
        one = found.get(scale, verdicts[-1])
        signs = tuple(
            SIGNS.get(found[name].verdict, NONE) if name in found else NONE for name in SCALES
        )
        printed = PublishedCells(one.experiment, FULL_SCALE, [])
        published = judge(one.paper, one.claim, one.experiment, printed).deciding
        lines.append(Line(authors.get(one.paper, one.paper), one, scale, published, signs))
    if not any(line.scale for line in lines):
        return []
    order = [*SIGNS, Verdict.NOT_MEASURED, Verdict.NO_PREDICATE]
    return sorted(lines, key=lambda one: order.index(one.strongest.verdict))


class PublishedCells(MeasuredCells):
    """The published values of an artefact, as cells of one seed."""

    @cached_property
    def by_cell(self) -> dict[CellKey, list[Measurement]]:
        """Published values by row, column and metric."""
        experiment, found = self.experiment, {}
        for one in experiment.columns:
            seed = experiment.seeds_at(self.scale, one.name)[0]
            for row, values in experiment.published.rows.items():
                if one.name in values and one.aggregate != "ensemble":
                    cell = row, one.name, one.metric
                    found[cell] = [Measurement.alone(cell, values[one.name], self.scale, seed)]
        return found


class Answer(NamedTuple):
    """Row of the table of questions; the parts of several claims are joined by semicolons.

    ``paper`` and ``here`` are a published and a measured difference, the latter with its 95 %
    confidence bound, or values where a claim is about a limit.
    """

    question: str
    authors: str
    paper: str
    here: str
    scale: str
    answer: str


def answers(lines: Sequence[Line]) -> list[Answer]:
    """Return the questions that claims answer, in the order of the files of claims."""
    by_name = {(line.strongest.paper, line.strongest.claim.name): line for line in lines}
    found = defaultdict[str, list[Line]](list)
    for paper in load_claims():
        for claim in paper.claims:
            if claim.question and (paper.paper, claim.name) in by_name:
                found[claim.question].append(by_name[paper.paper, claim.name])

    def joined(texts: Iterable[str]) -> str:
        return "; ".join(dict.fromkeys(texts))

    return [
        Answer(
            question,
            same[0].authors,
            joined(_size(one.strongest, one.published) for one in same),
            joined(_size(one.strongest, one.strongest.deciding) for one in same),
            joined(one.scale or NONE for one in same),
            joined(_answer(one.strongest) for one in same),
        )
        for question, same in found.items()
    ]


def _answer(one: Judged) -> str:
    return one.word.replace(one.verdict, _ANSWERS.get(one.verdict, one.verdict), 1)


def _size(one: Judged, outcome: Outcome | None) -> str:
    """Format the difference or the value that a claim is about, with its confidence bound."""
    if outcome is None:
        return NONE
    found, predicate = outcome.deciding, one.claim.predicate
    text = number_text(found.left.value, found.digits)
    if not isinstance(predicate, Bound):
        by = predicate.by if isinstance(predicate, Order) else 0.0
        text = signed_text(found.margin + by, found.digits)
    if found.interval is not None:
        text += f" ± {number_text(found.margin - found.interval[0], found.digits)}"
    return text

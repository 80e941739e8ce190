"""All claims in one table: what the papers print, and the verdict at each scale."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from repro.config.claims import load_claims
from repro.report.claims import Judged, Verdict, judge, judge_claims
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


class Line(NamedTuple):
    """Claim and its verdicts.

    Attributes:
        authors: authors of the paper.
        strongest: verdict at the largest scale that decides, or else that measures.
        scale: name of that scale; blank if the claim is not measured.
        published: sign of the published values.
        signs: sign at each scale of :data:`SCALES`.
    """

    authors: str
    strongest: Judged
    scale: str
    published: str
    signs: tuple[str, ...]


def claims_matrix(results_dir: Path, known: Mapping[str, Sequence[Judged]]) -> list[Line]:
    """Judge the claims at all scales; decided ones come first, then measured ones.

    Empty if none is measured at a scale with real corpora.

    Args:
        results_dir: the results folder.
        known: verdicts of some scales, which are not judged again.

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
        author = authors.get(one.paper, one.paper)
        lines.append(Line(author, one, scale, _published_sign(one), signs))
    if not any(line.scale for line in lines):
        return []
    order = [*SIGNS, Verdict.NOT_MEASURED, Verdict.NO_PREDICATE]
    return sorted(lines, key=lambda one: order.index(one.strongest.verdict))


class PublishedCells(MeasuredCells):
    """The published values of an artefact, as cells of one seed."""

    @cached_property
    def by_cell(self) -> dict[CellKey, list[Measurement]]:
        """Published values by row, column and metric."""
        columns = {one.name: one for one in self.experiment.columns if one.aggregate != "ensemble"}
        found = {}
        for row, values in self.experiment.published.rows.items():
            for name in values.keys() & columns.keys():
                if (value := values[name]) is not None:
                    metric, seed = (
                        columns[name].metric,
                        self.experiment.seeds_at(self.scale, name)[0],
                    )
                    one = Measurement.alone(row, name, metric, value, seed, self.scale)
                    found[row, name, metric] = [one]
        return found


def _published_sign(one: Judged) -> str:
    """Apply the rule of a claim to the published values."""
    cells = PublishedCells(one.experiment, FULL_SCALE, [])
    deciding = judge(one.paper, one.claim, one.experiment, cells).deciding
    if deciding is None:
        return NONE
    return SIGNS[Verdict.HOLDS if deciding.true else Verdict.FAILS]


def counts(lines: Sequence[Line]) -> str:
    """Count the claims by their strongest verdicts."""
    number = {one: sum(line.strongest.verdict is one for line in lines) for one in Verdict}
    return f"{len(lines)} claims: " + ", ".join(f"{one} {n}" for one, n in number.items() if n)

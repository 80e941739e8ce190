"""Sections and claims of a report, made up."""

from typing import Any

from repro.config.claims import Claim, Order, Predicate
from repro.config.experiment import Experiment
from repro.report.claims import ClaimsOfPaper, Judged, Verdict
from repro.report.document import Document, Section, build_section
from repro.report.table import build_table
from repro.results import Measurement


def section_of(
    experiment: Experiment, records: list[Measurement], scale: str = "full", **compared: Any
) -> Section:
    """Lay out all records of an artefact, with the comparisons of its cells if there are any."""
    return build_section(build_table(experiment, records, scale, **compared), records)


def claim_about(predicate: Predicate | None = None, **fields: Any) -> Claim:
    """Return a claim of Table 9: that row "a" is above row "b", if no other rule is given."""
    rule = predicate or Order(better=["a"], than=["b"])
    known = {"name": "claim", "text": "A claim.", "place": "§1", "artefact": "table9"}
    return Claim(**(known | {type(rule).__name__.lower(): rule} | fields))


def document_of(experiment: Experiment, *papers: tuple[Verdict, ...], **fields: Any) -> Document:
    """Return a report of claims alone: of each paper, one of each verdict."""
    claims = []
    for number, verdicts in enumerate(papers):
        rows = tuple(Judged("p", claim_about(**fields), experiment, one, one) for one in verdicts)
        open_claims = tuple(one for one in rows if one.verdict is Verdict.NOT_MEASURED)
        measured = tuple(one for one in rows if one not in open_claims)
        claims.append(ClaimsOfPaper(f"paper{number}", "", measured, open_claims))
    return Document("full", "", (), (), claims=tuple(claims))

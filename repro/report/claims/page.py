"""The claims as rows of text, ready for every renderer."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from repro.config.claims import Bound, Order, Spread, Within
from repro.evaluation.metrics import metric_of
from repro.report.cell import number_text
from repro.report.claims.contrasts import Contrast
from repro.report.claims.verdicts import Judged, Verdict, count_verdicts

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


@dataclass(frozen=True)
class ClaimRow:
    """One claim.

    Attributes:
        verdict: the verdict, in words.
        css: class of the verdict in the page.
        text: what the paper says.
        place: where it says so.
        evidence: the measured values, column by column.
        certainty: seeds, p and mean margin.
        artefact: ``<paper>/<artefact>``.
        anchor: target of the link to the artefact.
    """

    verdict: str
    css: str
    text: str
    place: str
    evidence: str
    certainty: str
    artefact: str
    anchor: str


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
    measured: tuple[ClaimRow, ...]
    unmeasured: tuple[ClaimRow, ...]


def claims_by_paper(judged: Sequence[Judged]) -> list[ClaimsOfPaper]:
    """Lay out verdicts by paper, in their order."""
    return [_of_paper(paper, list(group)) for paper, group in groupby(judged, lambda j: j.paper)]


def _of_paper(paper: str, judged: list[Judged]) -> ClaimsOfPaper:
    counts = count_verdicts(judged)
    summary = ", ".join(f"{verdict} {count}" for verdict, count in counts.items() if count)
    absent = [one.verdict is Verdict.NOT_MEASURED for one in judged]
    rows = [_row(one) for one in judged]
    return ClaimsOfPaper(
        paper=paper,
        summary=f"{len(judged)} claims: {summary}",
        measured=tuple(row for row, missing in zip(rows, absent, strict=True) if not missing),
        unmeasured=tuple(row for row, missing in zip(rows, absent, strict=True) if missing),
    )


def _row(judged: Judged) -> ClaimRow:
    return ClaimRow(
        verdict=judged.verdict.value,
        css=judged.verdict.name.lower().replace("_", "-"),
        text=judged.claim.text,
        place=judged.claim.place,
        evidence=_evidence(judged),
        certainty=_certainty(judged),
        artefact=judged.experiment.name,
        anchor=judged.experiment.anchor,
    )


def _evidence(judged: Judged) -> str:
    measured, wanted = judged.columns
    if not measured:
        return ""
    shown = [_compared(judged, one) for one in judged.contrasts[:SHOWN_COLUMNS]]
    more = measured - len(shown)
    parts = [*shown, *([f"{more} more columns"] if more else [])]
    coverage = f" ({measured} of {wanted} columns measured)" if measured < wanted else ""
    return f"{_sides(judged)}: {'; '.join(parts)}{coverage}"


def _sides(judged: Judged) -> str:
    """Name what stands left and right of each comparison."""
    predicate = judged.claim.predicate
    match predicate:
        case Order():
            extreme = "worst" if predicate.every else "best"
            return f"{_rows(predicate.better, extreme)} against {_rows(predicate.than, 'best')}"
        case Bound():
            ratio = f" ÷ {predicate.relative_to}" if predicate.relative_to else ""
            return f"{_rows(predicate.rows, 'least favourable')}{ratio}, and the limit"
        case Within():
            return "difference between the best and the worst row, and the limit"
        case Spread():
            return f"range over {predicate.axis}, and over {predicate.than}"
    raise TypeError(f"no such predicate: {type(predicate).__name__}")


def _rows(rows: Sequence[str], which: str) -> str:
    return rows[0] if len(rows) == 1 else f"{which} of {', '.join(rows)}"


def _compared(judged: Judged, one: Contrast) -> str:
    digits = _digits(judged, one)
    left, right = (number_text(float(side[0]), digits) for side in (one.left, one.right))
    return f"{one.column} {left} / {right}"


def _digits(judged: Judged, one: Contrast) -> int:
    predicate = judged.claim.predicate
    relative = isinstance(predicate, Bound) and predicate.relative_to is not None
    return RATIO_DIGITS if relative else metric_of(one.metric).digits


def _certainty(judged: Judged) -> str:
    if judged.effect is None:
        return ""
    digits = _digits(judged, judged.contrasts[0])
    margin = f"margin {judged.effect:+.{digits}f}".replace("-", "−")
    if judged.p is None:
        return f"one seed; {margin}" if judged.untested else margin
    p = f"p = {judged.p:.3f}" if judged.p >= 0.001 else "p < 0.001"
    return f"{judged.seeds} seed{'s' if judged.seeds > 1 else ''}; {p}; {margin}"

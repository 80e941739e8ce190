"""The claims of the papers, judged by the measured values."""

from repro.report.claims.page import GENERATED, METHOD, ClaimRow, ClaimsOfPaper, claims_by_paper
from repro.report.claims.verdicts import Judged, Verdict, count_verdicts, judge, judge_claims

__all__ = [
    "GENERATED",
    "METHOD",
    "ClaimRow",
    "ClaimsOfPaper",
    "Judged",
    "Verdict",
    "claims_by_paper",
    "count_verdicts",
    "judge",
    "judge_claims",
]

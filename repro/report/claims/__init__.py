"""The claims of the papers, judged by the measured values."""

from repro.report.claims.verdicts import (
    GENERATED,
    METHOD,
    ClaimsOfPaper,
    Judged,
    Verdict,
    claims_by_paper,
    judge,
    judge_claims,
)

__all__ = [
    "GENERATED",
    "METHOD",
    "ClaimsOfPaper",
    "Judged",
    "Verdict",
    "claims_by_paper",
    "judge",
    "judge_claims",
]

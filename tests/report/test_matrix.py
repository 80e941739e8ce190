"""The claims at all scales, from the committed records."""

from pathlib import Path

import pytest

from repro.config.claims import load_claims
from repro.report.claims import Judged, Verdict, judge_claims
from repro.report.matrix import NONE, SCALES, SIGNS, Line, claims_matrix
from repro.results import Archive

RESULTS = Path(__file__).parents[2] / "results"
DECIDED = (Verdict.HOLDS, Verdict.FAILS)


@pytest.fixture(scope="module")
def judged() -> dict[str, list[Judged]]:
    return {scale: judge_claims(Archive(RESULTS, scale)) for scale in SCALES}


@pytest.fixture(scope="module")
def lines(judged: dict[str, list[Judged]]) -> list[Line]:
    """The matrix, for which one scale is judged and the verdicts of the others are given."""
    return claims_matrix(RESULTS, {scale: judged[scale] for scale in SCALES[1:]})


def test_every_claim_has_a_line_decided_ones_first(lines):
    named = {(line.strongest.paper, line.strongest.claim.name) for line in lines}
    assert named == {(paper.paper, one.name) for paper in load_claims() for one in paper.claims}
    assert len(named) == len(lines)
    decided = [line.strongest.verdict in DECIDED for line in lines]
    assert decided == sorted(decided, reverse=True)
    assert any(decided)


def test_the_strongest_verdict_is_that_of_the_largest_scale_that_decides(lines, judged):
    by_name = {(line.strongest.paper, line.strongest.claim.name): line for line in lines}
    for n, scale in enumerate(SCALES):
        for one in judged[scale]:
            line = by_name[one.paper, one.claim.name]
            assert line.signs[n] == SIGNS.get(one.verdict, NONE)
            if one.verdict in DECIDED:
                assert line.strongest.verdict in DECIDED
                assert SCALES.index(line.scale) >= n


def test_published_values_agree_with_their_claims(lines):
    assert {line.published_sign for line in lines} <= {SIGNS[Verdict.HOLDS], NONE}


def test_nothing_measured_is_no_matrix(tmp_path):
    assert claims_matrix(tmp_path, {}) == []

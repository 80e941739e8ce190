"""The picture of margins: places on its axis, words and symbols."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from sections import claim_about

from repro.config.claims import Bound, Order
from repro.config.experiment import Experiment
from repro.report.claims import ClaimsOfPaper, Judged, Verdict
from repro.report.contrasts import Contrast, Outcome, Side
from repro.report.document import Document
from repro.report.margins import Margin, margin_of, position
from repro.report.render_html import html_report


def judged(
    experiment: Experiment,
    predicate: Order | Bound,
    margin: float,
    right: float,
    error: float | None = None,
    verdict: Verdict = Verdict.HOLDS,
) -> Judged:
    one = Contrast("avg", Side("{}", right + margin), Side("{}", right), 2, margin, error, 4.0, 3)
    outcome = Outcome(0.01, 0.99, 3, one)
    return Judged(
        "paper2020", claim_about(predicate), experiment, verdict, verdict, (outcome,), outcome
    )


def drawn(*claims: Judged, generated: bool = False) -> Sequence[Margin]:
    return [margin_of(one, generated) for one in claims]


def test_the_axis_has_zero_in_the_middle_and_is_symmetric_and_monotone():
    shares = [-9.0, -1.0, -0.1, -0.001, 0.0, 0.001, 0.1, 1.0, 9.0]
    places = [position(share) for share in shares]
    assert places == sorted(places)
    assert places[4] == 50
    assert [places[0], places[-1]] == pytest.approx([0, 100], abs=1e-9)
    assert places == pytest.approx([100 - place for place in reversed(places)])


@pytest.mark.parametrize(
    ("predicate", "right", "share"),
    [
        (Order(better=["a"], than=["b"]), 40.0, 0.05),
        (Order(better=["a"], than=["b"], by=4.0), 40.0, 0.5),
        (Bound(rows=["a"], highest=8.0), 8.0, 0.25),
    ],
)
def test_margins_are_in_units_of_the_limit_or_of_the_other_value(
    predicate, right, share, experiment
):
    (line,) = drawn(judged(experiment, predicate, 2.0, right))
    assert line.place == pytest.approx(position(share))
    assert line.interval is None
    (line,) = drawn(judged(experiment, predicate, 2.0, right, error=0.3))
    low, high = line.interval
    assert low < line.place < high


def test_only_numbers_have_minus_signs(experiment):
    one = judged(experiment, Order(better=["a"], than=["b"]), -2.0, 40.0)
    (line,) = drawn(replace(one, reason="half-size data"))
    assert line.text == "−5.0 % of the limit; half-size data; 3 seeds; p = 0.990; margin −2.00"


def test_verdicts_differ_by_symbol_and_say_less_about_generated_data(experiment):
    order = Order(better=["a"], than=["b"])
    claims = [
        judged(experiment, order, 2.0, 40.0, verdict=one)
        for one in (Verdict.HOLDS, Verdict.FAILS, Verdict.UNDECIDED)
    ]
    assert len({line.sign for line in drawn(*claims)}) == 3
    words = [line.word for line in drawn(*claims, generated=True)]
    assert words == ["effect seen", "effect not seen", "undecided"]
    paper = ClaimsOfPaper("paper2020", "", tuple(claims), ())
    for scale, colored, folded in (("demo", False, True), ("full", True, False)):
        page = html_report(Document(scale, "", (), (), claims=(paper,)))
        assert ('class="verdict holds"' in page) is colored
        assert ("<summary>Claims by paper</summary>" in page) is folded

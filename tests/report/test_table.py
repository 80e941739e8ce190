from dataclasses import replace

import pytest
from measured import measurement

from repro.config.experiment import Departure, Experiment
from repro.report.cell import Cell, collapsed
from repro.report.provenance import provenance_items, scale_banner
from repro.report.table import build_table
from repro.results import ResultsError


def cell(
    *values: float, wanted: int = 3, published: float | None = None, full: bool = True
) -> Cell:
    return Cell(values, wanted=wanted, digits=2, published=published, comparable=full)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (cell(), "—"),
        (cell(1.0, 2.0, 3.0), "2.00 ± 1.00"),
        (cell(1.0, 3.0), "2.00 ± 1.41 (2/3)"),
        (cell(1.0), "1.00 (1/3)"),
        (cell(1.0, wanted=1), "1.00"),
        (cell(2.0, 2.0, 2.0), "2.00 ± 0.00"),
    ],
)
def test_text_of_a_cell(made, text):
    assert made.text == text


@pytest.mark.parametrize(
    ("made", "difference", "text"),
    [
        (cell(2.0, published=1.5), 0.5, "+0.50"),
        (cell(1.0, published=1.5), -0.5, "−0.50"),
        (cell(1.5, published=1.5), 0.0, "0.00"),
        (cell(1.499, published=1.5), pytest.approx(-0.001), "0.00"),
        (cell(1.501, published=1.5), pytest.approx(0.001), "0.00"),
        (cell(2.0), None, ""),
        (cell(published=1.5), None, ""),
        (cell(2.0, published=1.5, full=False), None, ""),
    ],
)
def test_difference_of_a_cell(made, difference, text):
    assert made.difference == difference
    assert made.difference_text == text


def test_cells_take_their_seeds_in_order(experiment, records):
    table = build_table(experiment, records, "full")
    assert [row.labels for row in table.rows] == [("1", "a"), ("1", "b"), ("2", "a"), ("2", "b")]
    assert [[c.values for c in row.cells] for row in table.rows] == [
        [(51.0, 52.0, 53.0), (55.125,)],
        [(41.0, 43.0), ()],
        [(), ()],
        [(), ()],
    ]
    assert [c.wanted for c in table.rows[0].cells] == [3, 1]
    assert table.rows[0].cells[0].mean == 52.0
    assert table.rows[0].cells[0].std == 1.0
    assert table.rows[0].cells[0].difference == 0.75
    assert table.rows[1].cells[0].published is None
    assert table.incomplete == 6


def test_other_rows_have_published_values_only(experiment, records):
    (other,) = build_table(experiment, records, "full").other_rows
    assert other.label == "OTHER (2018)"
    assert [c.published for c in other.cells] == [None, 96.0]
    assert [c.values for c in other.cells] == [(), ()]


def test_nothing_is_comparable_below_full_scale(experiment, records):
    table = build_table(experiment, records, "demo")
    assert not table.comparable
    assert table.rows[0].cells[0].published == 51.25
    assert {c.difference for row in table.rows for c in row.cells} == {None}


def test_only_what_belongs_to_the_cell_counts(experiment, records):
    others = [
        measurement(seed=4, run_id="x"),
        measurement(metric="dev/accuracy"),
        measurement(metric="test/accuracy/english"),
        measurement(kind="ensemble", seed=None),
        measurement(column="ens", seed=1),
        measurement(row="9 / z"),
        measurement(column="gone"),
    ]
    plain = build_table(experiment, records, "full")
    table = build_table(experiment, records + others, "full")
    assert table.rows == plain.rows


def test_an_unknown_scale_is_refused(experiment):
    with pytest.raises(ResultsError, match="no scale 'small'; it has demo, full"):
        build_table(experiment, [], "small")


def test_a_banner_names_every_scale_but_the_papers_own():
    assert scale_banner("full") == ""
    for scale in ("demo", "small", "one_of_an_extension"):
        assert f"{scale} scale" in scale_banner(scale)


def test_provenance_counts_each_run_once(records):
    again = measurement(run_id="a1", seed=1, metric="dev/accuracy", device="cuda")
    items = dict(provenance_items([*records, again]))
    assert items["runs"] == "5, 1 ensemble, 5.0 minutes in all"
    assert items["device"] == "cpu · cuda"
    assert items["corpus"] == "made-up 0123456789ab"


def test_signatures_come_from_the_records(experiment, records):
    assert build_table(experiment, records, "full").signatures == ("test/accuracy: acc|made:up",)
    declared = build_table(experiment, [], "full").signatures
    assert declared[0].startswith("test/accuracy: acc|")
    assert "made:up" not in declared[0]


def test_a_relative_column_divides_by_the_row_of_the_same_seed(experiment):
    (first, *_), name = experiment.columns, "avg"
    ratio = replace(first, name="ratio", relative_to="1 / b")
    printed = {"rows": {"1 / a": {"ratio": 2.0}}, "other_rows": {"bound": {"ratio": 0.75}}}
    published = replace(experiment.published, **printed)
    wide = replace(experiment, columns=[first, ratio], seeds=[1, 2], published=published)
    values = {("1 / a", 1): 30.0, ("1 / a", 2): 5.0, ("1 / b", 1): 10.0, ("2 / a", 3): 7.0}
    records = [
        measurement(run_id=f"{row}{seed}", row=row, seed=seed, column=column, value=value)
        for (row, seed), value in values.items()
        for column in (name, "ratio")
    ]
    table = build_table(wide, records, "full")
    rows = {row.label: row.cells for row in (*table.rows, *table.other_rows)}
    assert rows["bound"][1].published_text == "0.75"
    assert rows["1 / a"][0].values == (30.0, 5.0)
    assert rows["1 / a"][1].values == (3.0,), "seed 2 of the reference is missing"
    assert rows["1 / a"][1].text == "3.00 (1/2)"
    assert rows["1 / a"][1].difference == 1.0
    assert rows["1 / b"][1].values == (1.0,)
    assert rows["2 / b"][1].values == ()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "3.00"),
        ({"epoch": 1}, "3.00†"),
        ({"diverged": True}, "3.00‡"),
        ({"signature": "acc|made:up|v:9"}, "3.00"),
        ({"signature": "acc|made:otherwise"}, "—"),
        ({"fingerprint": "0"}, "—"),
    ],
)
def test_a_ratio_bears_the_marks_of_what_it_is_divided_by(experiment, changes, text):
    ratio = replace(experiment.columns[0], relative_to="1 / b")
    some = replace(experiment, columns=[ratio], seeds=[1])
    one, base = measurement(value=30.0), measurement(row="1 / b", run_id="b", value=10.0, **changes)
    table = build_table(some, [one, base], "full")
    assert table.rows[0].cells[0].text == text
    assert table.rows[1].cells[0].values == (1.0,)


@pytest.fixture
def departing(experiment: Experiment) -> Experiment:
    """Add two departures: one of a row, one of a column with another measure."""
    departures = [
        Departure("another size", rows=["1 / a"]),
        Departure("another measure", columns=["ens"], incomparable=True),
    ]
    deviations = {"1 / a": {"avg": 0.5}}
    rows = {"1 / a": {"avg": 51.25, "ens": 55.0}}
    published = replace(experiment.published, rows=rows, deviations=deviations)
    return replace(experiment, departures=departures, published=published)


def test_departures_mark_their_cells_and_leave_values_of_another_measure_apart(departing, records):
    table = build_table(departing, records, "full")
    assert [[cell.marks for cell in row.cells] for row in table.rows] == [
        ["ᵃ", "ᵃᵇ"], ["", "ᵇ"], ["", "ᵇ"], ["", "ᵇ"],
    ]  # fmt: skip
    average, ensemble = table.rows[0].cells
    assert average.text.endswith("ᵃ")
    assert average.difference == pytest.approx(52 - 51.25)
    assert (average.published_std, average.published_text) == (0.5, "51.25 ± 0.50")
    assert (ensemble.mean, ensemble.published_text) == (55.125, "55.00")
    assert (ensemble.published_std, ensemble.difference) == (None, None)
    free = build_table(replace(departing, departures=[]), records, "full")
    assert free.rows[0].cells[1].difference == pytest.approx(0.125)
    below = build_table(departing, records, "demo")
    assert {cell.marks for row in below.rows for cell in row.cells} == {""}


def test_small_values_are_not_printed_as_zero(experiment):
    values = {"1 / a": 0.00123, "1 / b": 4.5, "2 / a": 0.0}
    records = [
        measurement(run_id=row, row=row, seed=1, value=value) for row, value in values.items()
    ]
    rows = {row.label: row.cells[0] for row in build_table(experiment, records, "demo").rows}
    assert [rows[row].text.split()[0] for row in values] == ["0.0012", "4.5000", "0.0000"]


@pytest.mark.parametrize(
    ("values", "fell"),
    [
        ([80.0, 42.0, 76.0], True),
        ([80.0, 79.0], False),  # two seeds do not say which is right
        ([80.0, 60.0, 75.0], False),  # less than five ranges below the others
        ([80.0, 70.5, 80.0], False),  # not ten points below the others
        ([80.0, 69.5, 80.0], True),
        ([42.0, 80.0, 42.0], False),  # one high value is no collapse
        ([0.0, 50.0, 51.0, 49.0], True),
    ],
)
def test_a_seed_collapsed_if_it_lies_far_below_all_others(values, fell):
    assert collapsed(values) is fell


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        ("test/accuracy", "66.00 ± 20.88¶"),
        ("test/drop", "66.00 ± 20.88"),  # less is better
        ("train/pairs_per_second", "66.0 ± 20.9"),  # a speed
    ],
)
def test_means_with_a_collapsed_seed_are_marked(metric, text, experiment):
    of = replace(experiment, columns=[replace(experiment.columns[0], metric=metric)])
    found = [
        measurement(run_id=f"a{seed}", seed=seed, value=value, metric=metric)
        for seed, value in enumerate([80.0, 42.0, 76.0], start=1)
    ]
    assert build_table(of, found, "full").rows[0].cells[0].text == text

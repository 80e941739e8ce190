from dataclasses import replace

import pytest
from measured import measurement
from sections import section_of

from repro.config.experiment import Column, Experiment, ScalePlan, Tuning
from repro.report.breakdown import tuning_grid, tuning_remarks
from repro.report.table import build_table, chosen_records
from repro.results import Measurement


@pytest.fixture
def tuned(experiment: Experiment) -> Experiment:
    return replace(
        experiment,
        columns=[Column("avg", "test/uas"), Column("other", "test/uas")],
        seeds=[7, 1],
        scales={"full": ScalePlan(columns={"avg": []})},
        tune=Tuning("training.learning_rate", [0.1, 0.2, 0.4], "dev/uas", grid_factor=2.0),
        published=replace(experiment.published, rows={}, other_rows={}),
    )


def run(row: str, seed: int, value: float, dev: float, test: float) -> list[Measurement]:
    place = {"row": row, "seed": seed, "run_id": f"{row}{seed}{value}", "tuned": value}
    numbers = {"dev/uas": dev, "test/uas": test}
    return [measurement(metric=name, value=number, **place) for name, number in numbers.items()]


@pytest.fixture
def grid() -> list[Measurement]:
    """The best value on dev is not the best on test, and the other seed would disagree."""
    return [
        *run("1 / a", 7, 0.1, dev=80, test=90),
        *run("1 / a", 7, 0.2, dev=82, test=81),
        *run("1 / a", 7, 0.4, dev=81, test=95),
        *run("1 / a", 1, 0.2, dev=70, test=83),
        *run("1 / a", 1, 0.4, dev=99, test=99),
        *run("1 / b", 7, 0.1, dev=60, test=61),
    ]


def test_the_table_shows_the_value_that_is_best_on_dev(tuned, grid):
    for records in (grid, grid[::-1]):
        table = build_table(tuned, records, "full")
        cell = table.rows[0].cells[0]
        assert cell.values == (81, 83)
        assert (cell.found, cell.wanted) == (2, 2)
        assert table.rows[1].cells[0].values == (61,)
        assert table.rows[1].cells[0].text == "61.00 (1/2)"


def test_columns_that_a_scale_does_not_run_are_not_missing(tuned, grid):
    table = build_table(tuned, grid, "full")
    assert table.rows[0].cells[1].text == "—"
    assert table.rows[0].cells[1].wanted == 0
    assert table.incomplete == 3  # of the four rows of one column


def test_every_record_of_a_row_that_is_not_tuned_counts(tuned, grid):
    some = replace(tuned, tune=replace(tuned.tune, rows=["1 / a"]))
    fixed = [measurement(row="1 / b", metric="test/uas", seed=s, run_id=f"f{s}") for s in (7, 1)]
    records = [record for record in grid if record.row == "1 / a"] + fixed
    chosen = chosen_records(some, records, "full")
    assert [record for record in chosen if record.row == "1 / b"] == fixed
    assert chosen_records(tuned, records, "full") == [r for r in chosen if r.row == "1 / a"]
    assert "(1 / a; avg)" in tuning_remarks(some, records, "full")[0]


def test_a_tuned_cell_keeps_the_value_that_an_older_first_seed_chose(tuned, grid):
    records = [replace(one, epoch=8 if one.seed == 7 else 10) for one in grid]
    cell = build_table(tuned, records, "full").rows[0].cells[0]
    assert (cell.values, cell.found, cell.wanted) == ((83,), 1, 2)


def test_the_report_shows_the_whole_grid_and_what_is_missing(tuned, grid):
    shown = tuning_grid(tuned, grid, "full")
    assert [column.title for column in shown.columns] == [
        "row", "column", "0.1", "0.2", "0.4", "chosen",
    ]  # fmt: skip
    assert [row.texts for row in shown.rows] == [
        ("1 / a", "avg", "80.00", "82.00", "81.00", "0.2"),
        ("1 / b", "avg", "60.00", "—", "—", "0.1"),
    ]
    remarks = tuning_remarks(tuned, grid, "full")
    assert "chosen for each cell by dev/uas of the first seed among 0.1, 0.2, 0.4" in remarks[0]
    assert remarks[1] == "Not every value of the grid has been run for: 1 / b / avg."
    section = section_of(tuned, grid)
    assert set(remarks) <= set(section.notes)
    assert shown in section.details
    assert tuning_grid(tuned, [], "full") is None
    single = [one for one in grid if one.tuned == 0.1]
    assert tuning_grid(tuned, single, "full") is None


@pytest.mark.parametrize(("best", "beyond"), [(0.2, []), (0.4, ["1 / a / avg"])])
def test_the_report_says_that_a_value_beyond_the_grid_is_missing(tuned, grid, best, beyond):
    mine = [one for one in grid if (one.row, one.seed) == ("1 / a", tuned.seeds[0])]
    records = [replace(one, value=90.0) if one.tuned == best else one for one in mine]
    _, *remarks = tuning_remarks(tuned, records, "full")
    expected = "Not every value of the grid has been run for: {}."
    assert remarks == [expected.format(one) for one in beyond]


def test_names_of_columns_with_commas_stay_apart(tuned, grid):
    scales = {"full": ScalePlan(tuned=[0.1])}
    (remark,) = tuning_remarks(replace(tuned, scales=scales), grid, "full")[:1]
    assert remark == "training.learning_rate is 0.1, not tuned (avg; other)."


NOW, OLD, OLDER = (
    f"acc|macro:language|scorer:{one}|v:0.1.0" for one in ("evalm2018", "own", "first")
)


@pytest.mark.parametrize(
    ("field", "values", "shown"),
    [
        ("epoch", [4, 10, 10], [2, 3]),
        ("epoch", [10, 10, 9], [1, 2]),
        ("epoch", [9, 9, 10], [3]),
        ("epoch", [10, 10, 10], [1, 2, 3]),
        ("signature", [OLD, NOW, NOW], [2, 3]),
        ("signature", [NOW, OLD, OLD], [1]),  # that of today, although others are newer
        ("signature", [OLD, OLDER, OLD], [1, 3]),  # that of the newest run, where none is of today
        ("signature", [OLD, OLD, OLDER], [3]),
        ("signature", [OLD, OLD, OLD], [1, 2, 3]),
        ("signature", [NOW, NOW.replace("0.1.0", "0.2.0"), NOW + "|sacrebleu:2.6.0"], [1, 2, 3]),
    ],
)
def test_a_cell_pools_the_runs_of_one_epoch_and_signature(experiment, field, values, shown):
    records = [
        measurement(run_id=f"r{seed}", seed=seed, value=60.0 + seed, finished=f"2026-01-0{seed}",
                    **{field: value})
        for seed, value in enumerate(values, start=1)
    ]  # fmt: skip
    others = [replace(one, metric="dev/loss", signature="loss") for one in records]
    chosen = chosen_records(experiment, [*records, *others], "full")
    assert [one.seed for one in chosen if one.metric == "test/accuracy"] == shown
    if field == "signature":
        assert [one for one in chosen if one.metric == "dev/loss"] == others
    table = build_table(experiment, records, "full")
    (cell,) = (one for row in table.rows for one in row.cells if one.found)
    assert cell.values == tuple(60.0 + seed for seed in shown)
    assert (f"({len(shown)}/3)" in cell.text) == (len(shown) < 3)
    assert len(table.signatures) == len({records[seed - 1].signature for seed in shown})


def test_the_newest_epoch_precedes_the_signature(experiment):
    old = measurement(run_id="a", seed=1, signature=NOW, epoch=8)
    new = measurement(run_id="b", seed=2, signature=OLD)
    assert chosen_records(experiment, [old, new], "full") == [new]

from dataclasses import replace

from measured import measurement
from sections import section_of

from repro.config.experiment import Column, Published
from repro.report.breakdown import language_grids, runs_grid, summary_grid
from repro.report.document import Document
from repro.report.grid import NOT_COMPARABLE, Grid, table_grids
from repro.report.render_html import html_report
from repro.report.render_latex import latex_grid
from repro.report.render_markdown import markdown_grid
from repro.report.table import build_table


def texts(grid: Grid) -> list[tuple[str, ...]]:
    return [row.texts for row in grid.rows]


def titles(grid: Grid) -> list[str]:
    return [column.title for column in grid.columns]


def best(grid: Grid) -> list[list[int]]:
    return [[n for n, cell in enumerate(row.cells) if cell.best] for row in grid.rows]


def test_at_full_scale_ours_stands_beside_the_papers(experiment, records):
    (grid,) = table_grids(build_table(experiment, records, "full"))
    assert titles(grid) == ["output α", "attention α", *["ours", "paper", "diff."] * 2]
    assert grid.groups == [("", 2), ("avg", 3), ("ens", 3)]
    assert texts(grid) == [
        ("1", "a", "52.00 ± 1.00", "51.25", "+0.75", "55.12", "", ""),
        ("1", "b", "42.00 ± 1.41 (2/3)", "", "", "—", "", ""),
        ("2", "a", "—", "", "", "—", "", ""),
        ("2", "b", "—", "60.00", "", "—", "61.50", ""),
        ("OTHER (2018)", "", "", "", "", "", "96.00", ""),
    ]
    assert [row.starts_block for row in grid.rows] == [False, False, True, False, True]
    assert not grid.muted


def test_below_full_scale_the_papers_values_stand_apart(experiment, records):
    ours, paper = table_grids(build_table(experiment, records, "demo"))
    assert {column.role for column in ours.columns} == {"label", "measured"}
    assert {column.role for column in paper.columns} == {"label", "published"}
    assert ours.title == "measured, demo scale"
    assert paper.title == NOT_COMPARABLE
    assert paper.muted
    assert not ours.muted
    assert texts(ours)[0] == ("1", "a", "52.00 ± 1.00", "55.12")
    assert texts(paper)[0] == ("1", "a", "51.25", "")
    assert texts(paper)[-1] == ("OTHER (2018)", "", "", "96.00")
    assert len(ours.rows) == 4
    published = {"51.25", "60.00", "61.50", "96.00"}
    assert not published & {text for row in texts(ours) for text in row}


def test_the_best_value_of_each_column_is_marked(experiment, records):
    (grid,) = table_grids(build_table(experiment, records, "full"))
    assert best(grid) == [[2], [], [], [3], []]


def test_the_best_ratio_is_marked_at_the_digits_of_ratios(experiment):
    column = Column("avg", "train/tokens_per_second", relative_to="1 / a")
    speeds = {"1 / a": 100.0, "1 / b": 90.0, "2 / a": 104.0}
    records = [
        measurement(run_id=row, row=row, seed=1, value=value, metric=column.metric)
        for row, value in speeds.items()
    ]
    bare = replace(experiment, columns=[column], published=Published())
    (grid,) = table_grids(build_table(bare, records, "demo"))
    assert best(grid) == [[], [], [2], []]


def test_columns_without_a_value_are_left_out_and_named(experiment, records):
    some = [record for record in records if record.column == "avg"]
    table = build_table(experiment, some, "demo")
    for grid in table_grids(table):
        assert titles(grid) == ["output α", "attention α", "avg"]
    assert section_of(experiment, some, "demo").notes[0] == "No value at this scale: ens."


def test_without_published_values_there_is_one_grid(experiment, records):
    alone = replace(experiment, published=Published())
    for scale in ("full", "demo"):
        (grid,) = table_grids(build_table(alone, records, scale))
        assert [column.role for column in grid.columns] == ["label"] * 2 + ["measured"] * 2


def test_summary_shows_what_is_recorded(experiment, records):
    table = build_table(experiment, records, "full")
    assert summary_grid(table, records) is None
    more = [
        measurement(run_id=f"a{s}", seed=s, metric="dev/certified", value=80 + s) for s in (1, 2)
    ]
    more.append(measurement(run_id="b1", row="1 / b", metric="dev/output_nonzeros", value=1.5))
    grid = summary_grid(table, records + more)
    assert titles(grid)[2:] == ["certified, dev (%)", "output nonzeros, dev (symbols)"]
    assert texts(grid) == [("1", "a", "81.5 ± 0.7 (2/3)", "—"), ("1", "b", "—", "1.50 (1/3)")]


def test_columns_with_the_same_summary_share_a_row(experiment):
    avg, ens = (replace(column, aggregate="mean") for column in experiment.columns)
    columns = [avg, replace(ens, relative_to="1 / a")]  # a ratio of its own metric only
    table = build_table(replace(experiment, columns=columns), [], "full")
    found = [
        measurement(run_id=row + column, row=row, column=column, metric="dev/certified", value=v)
        for row, column, v in [
            ("1 / a", "avg", 80), ("1 / a", "ens", 80), ("1 / b", "avg", 70), ("1 / b", "ens", 60),
        ]
    ]  # fmt: skip
    grid = summary_grid(table, found[:3])
    assert [row[:2] for row in texts(grid)] == [("1", "a"), ("1", "b")]
    assert titles(grid)[2:] == ["certified, dev (%)"]
    grid = summary_grid(table, found)
    assert [row[1:3] for row in texts(grid)] == [("a", "avg, ens"), ("b", "avg"), ("b", "ens")]


def test_languages_with_the_rule_baseline(experiment, records):
    table = build_table(experiment, records, "full")
    assert language_grids(table, records) == []
    more = [
        measurement(run_id=f"a{s}", seed=s, metric=f"test/accuracy/{name}", value=value + s)
        for s in (1, 2, 3)
        for name, value in [("zulu", 10), ("arabic", 20)]
    ]
    more.append(measurement(run_id="b1", row="1 / b", metric="test/accuracy/zulu", value=30))
    (grid,) = language_grids(table, records + more)
    assert titles(grid) == ["language", "1 / a", "1 / b", "2 / a", "2 / b"]
    assert texts(grid) == [
        ("arabic", "22.00", "—", "—", "—"),
        ("zulu", "12.00", "30.00 (1/3)", "—", "—"),
    ]
    rules = [measurement(seed=s, metric="test/rule_baseline/zulu", value=5.0) for s in (1, 2)]
    (grid,) = language_grids(table, records + more + rules)
    assert titles(grid)[:2] == ["language", "rule baseline"]
    assert [row[1] for row in texts(grid)] == ["—", "5.00"]


def test_every_run_is_listed(experiment, records):
    table = build_table(experiment, records, "full")
    grid = runs_grid(table, records)
    assert titles(grid) == ["row", "seed", "run", "seconds", "avg", "ens"]
    assert len(grid.rows) == len({record.run_id for record in records})
    assert ("1 / a", "3", "a3", "60", "53.00", "") in texts(grid)
    assert ("1 / a", "ensemble", "e", "60", "", "55.12") in texts(grid)
    assert {row.cells[2].runs[0].run_id for row in grid.rows} == {
        record.run_id for record in records
    }
    assert runs_grid(table, []) is None


def test_a_table_is_cut_where_its_labels_and_values_together_are_too_wide(experiment, records):
    assert len(section_of(experiment, records, "demo").parts) == 2  # beside each other
    long = Published(other_rows={"o" * 110: {"avg": 1.0, "ens": 96.0}})
    section = section_of(replace(experiment, published=long), records, "demo")
    assert section.stacked
    assert [titles(ours) for ours, _ in section.parts] == [
        ["output α", "attention α", "avg"],
        ["output α", "attention α", "ens"],
    ]


def test_below_full_scale_the_corpora_stand_below_the_titles(experiment, records):
    some = [
        replace(one, corpus="multi30k" if one.column == "ens" else one.corpus) for one in records
    ]
    ours, paper = table_grids(build_table(experiment, some, "demo"))
    assert ours.corpora == [("corpus", 1), ("", 1), ("made-up", 1), ("multi30k", 1)]
    assert not paper.corpora
    (full,) = table_grids(build_table(experiment, records, "full"))
    assert not full.corpora
    section = section_of(experiment, some, "demo")
    assert "multi30k" in latex_grid(ours)
    assert "*multi30k*" in markdown_grid(ours)
    page = html_report(Document("demo", "", (section,), ()))
    assert '<td colspan="1">multi30k</td>' in page

"""Signs, p-values and notes of comparisons with the baseline, in every format."""

import csv
import io
import re
from dataclasses import replace

import pytest

from repro.config.experiment import Experiment
from repro.evaluation.significance import signature
from repro.report import build_report
from repro.report.document import Document, Section, build_section
from repro.report.render_csv import csv_table
from repro.report.render_html import html_report
from repro.report.render_latex import latex_table
from repro.report.render_markdown import markdown_table
from repro.report.table import build_table
from repro.results import Comparison, Measurement, write_comparisons

CELL = ("1 / b", "avg", "test/accuracy")
COMPARED = Comparison(
    metric="test/accuracy", runs="b1 b3", baseline_runs="a1 a3", examples=321, difference=-10.0,
    p_value=0.0499, signature="randomisation|trials:8",
)  # fmt: skip


@pytest.fixture
def compared(experiment: Experiment) -> Experiment:
    return replace(experiment, baseline="1 / a")


def section(experiment: Experiment, records: list[Measurement], *found: Comparison) -> Section:
    compared = dict(zip([CELL], found, strict=False))
    return build_section(build_table(experiment, records, "full", compared), records)


def test_a_significant_cell_bears_the_sign(compared, records):
    table = build_table(compared, records, "full", {CELL: COMPARED})
    assert [row.cells[0].text for row in table.rows[:2]] == ["52.00 ± 1.00", "42.00* ± 1.41 (2/3)"]
    assert table.comparisons == (COMPARED,)


def test_a_larger_p_value_has_no_sign(compared, records):
    table = build_table(compared, records, "full", {CELL: replace(COMPARED, p_value=0.05)})
    assert table.rows[1].cells[0].text == "42.00 ± 1.41 (2/3)"
    assert len(table.comparisons) == 1


def test_markdown_explains_the_sign_and_lists_the_p_values(compared, records):
    text = markdown_table(section(compared, records, COMPARED))
    assert r"42.00\* ± 1.41 (2/3)" in text
    assert r"- \* differs from 1 / a: p \< 0.05" in text
    assert r"randomisation\|trials:8" in text
    assert "<details><summary>differences from 1 / a, paired tests</summary>" in text
    assert "| 1 / b | avg | 321 | 2 | −10.00 | 0.0499 |" in text


def test_html_shows_sign_note_and_p_values(compared, records):
    one = section(compared, records, COMPARED)
    page = html_report(Document("full", "", (one,), ()))
    assert re.search(r"42\.00<span[^>]*> ± 1\.41 \(2/3\)</span><span[^>]*>\*</span>", page)
    for expected in ("* differs from 1 / a", "paired tests", "0.0499", "321"):
        assert expected in page, expected


def test_latex_has_the_note_below_the_table(compared, records):
    text = latex_table(section(compared, records, COMPARED))
    assert r"42.00* $\pm$ 1.41" in text
    assert r"{\footnotesize * differs from 1 / a: p \textless{} 0.05" in text
    assert "differs from" not in latex_table(section(compared, records))


def test_csv_has_the_p_values(compared, records):
    one = section(compared, records, COMPARED)
    rows = list(csv.DictReader(io.StringIO(csv_table(one.table))))
    columns = ("attention α", "column", "p_value")
    found = [tuple(row[name] for name in columns) for row in rows]
    assert ("b", "avg", "0.0499") in found
    assert ("a", "avg", "") in found


def test_the_report_reads_the_comparisons(compared, records, filled, know, tmp_path):
    know(compared)
    write_comparisons(tmp_path, "full", [replace(COMPARED, signature=signature())])
    build_report(filled(tmp_path, "full", {compared.name: records}))
    written = (tmp_path / "full" / "tables" / f"{compared.name}.md").read_text(encoding="utf-8")
    assert r"42.00\* ± 1.41" in written


def test_a_table_whose_rows_were_not_compared_says_why_it_has_no_signs(
    compared, experiment, records
):
    signs = section(compared, records).signs
    assert signs[0].startswith("No marks of significance: paired tests against 1 / a need")
    without = [section(experiment, records), section(compared, records[:3])]
    assert not any("significance" in sign for one in without for sign in one.signs)


def test_cells_without_a_test_bear_a_sign_beside_tested_ones(compared, records, make_record):
    more = make_record(run_id="c1", row="2 / a", seed=1, value=45.0)
    table = build_table(compared, [*records, more], "full", {CELL: COMPARED})
    untested = [(row.label, n) for row in table.rows for n, c in enumerate(row.cells) if c.untested]
    assert untested == [("2 / a", 0)]
    one = build_section(table, [*records, more])
    assert one.grids[0].rows[2].texts[2].startswith("45.00°")
    assert "2 / a" in one.signs[0]
    assert "1 / b" not in one.signs[0]
    alone = build_section(build_table(compared, [*records, more], "full"), [*records, more])
    assert not any("°" in text for row in alone.grids[0].rows for text in row.texts)

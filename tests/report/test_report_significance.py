"""Signs, p-values and notes of comparisons with the baseline, in every format."""

import csv
import io
import re
from dataclasses import replace

import pytest
from measured import measurement
from sections import section_of

from repro.config.experiment import Experiment
from repro.evaluation.significance import signature
from repro.report import build_report
from repro.report.document import Document
from repro.report.render_csv import csv_table
from repro.report.render_html import html_report
from repro.report.render_latex import latex_table
from repro.report.render_markdown import markdown_table
from repro.results import Comparison, write_comparisons

CELL = ("1 / b", "avg", "test/accuracy")
COMPARED = Comparison(
    metric="test/accuracy", runs="b1 b3", baseline_runs="a1 a3", examples=321, difference=-10.0,
    p_value=0.0499, signature="randomisation|trials:8",
)  # fmt: skip


@pytest.fixture
def compared(experiment: Experiment) -> Experiment:
    return replace(experiment, baseline="1 / a")


def test_a_significant_difference_has_its_sign_its_note_and_its_p_value_in_every_format(
    compared, records
):
    one = section_of(compared, records, comparisons={CELL: COMPARED})
    assert [row.cells[0].text for row in one.table.rows[:2]] == [
        "52.00 ± 1.00", "42.00* ± 1.41 (2/3)"
    ]  # fmt: skip
    assert one.table.comparisons == (COMPARED,)
    page, markdown = html_report(Document("full", "", (one,), ())), markdown_table(one)
    assert re.search(r"42\.00<span[^>]*> ± 1\.41 \(2/3\)</span><span[^>]*>\*</span>", page)
    for text, expected in (
        (page, ("* differs from 1 / a", "paired tests", "0.0499", "321")),
        (markdown, (r"42.00\* ± 1.41 (2/3)", r"- \* differs from 1 / a: p \< 0.05")),
        (markdown, (r"randomisation\|trials:8", "| 1 / b | avg | 321 | 2 | −10.00 | 0.0499 |")),
        (markdown, ("<details><summary>differences from 1 / a, paired tests</summary>",)),
        (latex_table(one), (r"42.00* $\pm$ 1.41", "{\\footnotesize * differs from 1 / a: p ")),
        (latex_table(one), (r"differs from 1 / a: p \textless{} 0.05",)),
    ):
        assert [part for part in expected if part not in text] == []
    rows = list(csv.DictReader(io.StringIO(csv_table(one.table))))
    found = {(row["attention α"], row["column"], row["p_value"]) for row in rows}
    assert {("b", "avg", "0.0499"), ("a", "avg", "")} <= found


def test_a_larger_p_value_has_no_sign(compared, records):
    larger = replace(COMPARED, p_value=0.05)
    table = section_of(compared, records, comparisons={CELL: larger}).table
    assert table.rows[1].cells[0].text == "42.00 ± 1.41 (2/3)"
    assert len(table.comparisons) == 1


def test_the_report_reads_the_comparisons(compared, records, filled, know, tmp_path):
    know(compared)
    write_comparisons(tmp_path, "full", [replace(COMPARED, signature=signature())])
    build_report(filled(tmp_path, "full", {compared.name: records}))
    written = (tmp_path / "full" / "tables" / f"{compared.name}.md").read_text(encoding="utf-8")
    assert r"42.00\* ± 1.41" in written


def test_a_table_whose_rows_were_not_compared_says_why_it_has_no_signs(
    compared, experiment, records
):
    one = section_of(compared, records)
    assert one.signs[0].startswith("No marks of significance: paired tests against 1 / a need")
    assert "differs from" not in latex_table(one)
    without = [section_of(experiment, records), section_of(compared, records[:3])]
    assert not any("significance" in sign for one in without for sign in one.signs)


def test_cells_without_a_test_bear_a_sign_beside_tested_ones(compared, records):
    found = [*records, measurement(run_id="c1", row="2 / a", seed=1, value=45.0)]
    one = section_of(compared, found, comparisons={CELL: COMPARED})
    cells = [(row.label, n, cell) for row in one.table.rows for n, cell in enumerate(row.cells)]
    assert [place for *place, cell in cells if cell.untested] == [["2 / a", 0]]
    assert one.grids[0].rows[2].texts[2].startswith("45.00°")
    assert "2 / a" in one.signs[0]
    assert "1 / b" not in one.signs[0]
    alone = section_of(compared, found)
    assert not any("°" in text for row in alone.grids[0].rows for text in row.texts)

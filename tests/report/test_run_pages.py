"""Pages of single runs."""

import json
from dataclasses import replace
from pathlib import Path

import measured

from repro.report.charts import chart_of
from repro.report.many_runs import compared_run, comparison_page
from repro.report.render_html import html_run
from repro.results import run_folder

RECORD = replace(
    measured.RECORD, config={"task": {"name": "<b>morphology</b>"}, "seed": 1},
    metrics={"test/accuracy": 94.25}, signatures={"test/accuracy": "accuracy|macro"},
)  # fmt: skip


def test_a_run_without_its_folder_has_settings_and_metrics(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, "demo", RECORD.run_id)
    text = html_run(RECORD, chart_of(folder, ""), {"../report.html#a": "paper/table"})
    assert '<td>94.25</td><td class="label">accuracy|macro</td>' in text
    assert "&lt;b&gt;morphology" in text
    assert '<a href="../report.html#a">paper/table</a>' in text
    assert "<script" not in text


def test_curves_have_holes_where_nothing_was_measured(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, "demo", RECORD.run_id)
    rows = [
        {"epoch": 1, "step": 5, "seconds": 2.0, "dev_accuracy": 50.0, "trees": [1]},
        {"epoch": 2, "step": 9, "seconds": 4.0, "dev_loss": 1 / 3, "dev_accuracy": float("inf")},
    ]
    folder.rewrite_history(rows)
    chart = chart_of(folder, "")
    assert chart["x"] == {"epoch": [1, 2], "update": [5, 9], "time": [2.0, 4.0]}
    assert chart["y"] == {"dev_loss": [None, 0.333333], "dev_accuracy": [50.0, None]}
    assert '"dev_loss":[null,0.333333]' in html_run(RECORD, chart, {})


def test_a_damaged_history_is_left_out(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, "demo", RECORD.run_id)
    folder.path.mkdir(parents=True)
    folder.rewrite_history([{"step": 1, "dev_loss": 1.0}, {"step": 2, "dev_loss": 1.0}])
    folder.mark_done({})
    assert len(chart_of(folder, "")["y"]) == 1
    rows = folder.history.read_text().replace("1.0", "7.0")
    folder.history.write_text(rows)
    assert chart_of(folder, "")["y"] == {}


def test_the_comparison_holds_what_differs_and_any_text_is_safe(tmp_path: Path) -> None:
    other = replace(
        RECORD, run_id="ba9876543210", config={"task": {"name": "</script>"}, "seed": 1}
    )
    rows = [
        compared_run(one, run_folder(tmp_path, "demo", one.run_id), f"row {place}", None)
        for place, one in enumerate((RECORD, other))
    ]
    text = comparison_page([{**row, "group": "paper/table"} for row in rows], [], {})
    start = text.index(">", text.index('<script type="application/json"')) + 1
    data = json.loads(text[start : text.index("</script>", start)])
    assert data["metrics"] == {"test/accuracy": {"digits": 2, "higher": True}}
    assert data["runs"][1] == {
        "id": other.run_id, "label": "row 1", "page": None, "group": "paper/table",
        "x": {}, "y": {}, "settings": {"task.name": "</script>"},
        "metrics": {"test/accuracy": 94.25},
    }  # fmt: skip

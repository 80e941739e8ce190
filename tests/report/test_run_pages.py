"""Pages of single runs."""

import json
from dataclasses import replace
from pathlib import Path

from repro.report.render_html import html_comparison, html_run
from repro.report.run_pages import HEIGHT, WIDTH, run_page
from repro.results import Record, run_folder

RECORD = Record(
    run_id="0123456789ab", kind="run", scale="demo", seed=1,
    config={"task": {"name": "<b>morphology</b>"}, "seed": 1},
    metrics={"test/accuracy": 94.25}, signatures={"test/accuracy": "accuracy|macro"},
    corpus="demo-inflection", fingerprint="f" * 64, epoch=6, commit="abc1234", device="cpu",
    versions="python 3.11.7", wall_time=90.0, finished="", command="repro run seed=1", members=[],
)  # fmt: skip


def test_a_run_without_its_folder_has_settings_and_metrics(tmp_path: Path) -> None:
    page = run_page(RECORD, run_folder(tmp_path, "demo", RECORD.run_id), [("a", "paper/table")])
    assert page.metrics == (("test/accuracy", "94.25", "accuracy|macro"),)
    assert page.curves == ()
    text = html_run(page)
    assert "&lt;b&gt;morphology" in text
    assert '<a href="../report.html#a">paper/table</a>' in text
    assert "<script" not in text


def test_curves_have_the_numbers_of_updates_at_their_ends(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, "demo", RECORD.run_id)
    folder.path.mkdir(parents=True)
    for step, loss in enumerate([4.0, 2.0, 3.0], 1):  # validated within an epoch
        folder.append_history({"epoch": 1, "step": step, "dev_loss": loss, "counts": [1, 2]})
    page = run_page(RECORD, folder, [])
    (curve,) = page.curves
    assert (curve.name, curve.values) == ("dev_loss", (4.0, 2.0, 3.0))
    points = [tuple(map(float, point.split(","))) for point in curve.points.split()]
    assert [x for x, _ in points] == [6.0, WIDTH / 2, WIDTH - 6]
    assert [y for _, y in points] == [6.0, HEIGHT - 6, HEIGHT / 2]
    assert curve.steps == (1.0, 3.0)
    assert curve.points in html_run(page)


def test_a_damaged_history_is_left_out(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, "demo", RECORD.run_id)
    folder.path.mkdir(parents=True)
    folder.rewrite_history([{"step": 1, "dev_loss": 1.0}, {"step": 2, "dev_loss": 1.0}])
    folder.mark_done({})
    assert len(run_page(RECORD, folder, []).curves) == 1
    rows = folder.history.read_text().replace("1.0", "7.0")
    folder.history.write_text(rows)
    assert run_page(RECORD, folder, []).curves == ()


def test_the_comparison_holds_what_differs_and_any_text_is_safe(tmp_path: Path) -> None:
    other = replace(
        RECORD, run_id="ba9876543210", seed=2, config={"task": {"name": "</script>"}, "seed": 2}
    )
    pages = [
        run_page(one, run_folder(tmp_path, "demo", one.run_id), [("a", "paper/table")])
        for one in (RECORD, other)
    ]
    text = html_comparison(pages, {one.run_id: f"row {one.seed}" for one in (RECORD, other)})
    assert f'<option value="{RECORD.run_id}">row 1 · {RECORD.run_id}</option>' in text
    start = text.index(">", text.index('<script type="application/json"')) + 1
    runs = json.loads(text[start : text.index("</script>", start)])
    assert runs[other.run_id] == {
        "settings": {"seed": "2", "task.name": "</script>"},
        "metrics": {"test/accuracy": "94.25"},
        "curves": {},
    }

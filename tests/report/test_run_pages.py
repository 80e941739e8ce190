"""Pages of single runs."""

import json
from dataclasses import replace
from pathlib import Path

from repro.report.histories import History, history_of
from repro.report.render_html import html_comparison, html_run
from repro.report.run_pages import HEIGHT, WIDTH, ComparedRun, run_page
from repro.results import Record, run_folder

RECORD = Record(
    run_id="0123456789ab", kind="run", scale="demo", seed=1,
    config={"task": {"name": "<b>morphology</b>"}, "seed": 1},
    metrics={"test/accuracy": 94.25}, signatures={"test/accuracy": "accuracy|macro"},
    corpus="demo-inflection", fingerprint="f" * 64, epoch=6, commit="abc1234", device="cpu",
    versions="python 3.11.7", wall_time=90.0, finished="", command="repro run seed=1", members=[],
)  # fmt: skip


def test_a_run_without_its_folder_has_settings_and_metrics(tmp_path: Path) -> None:
    page = run_page(
        RECORD, run_folder(tmp_path, "demo", RECORD.run_id), [("../report.html#a", "paper/table")]
    )
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


def test_the_comparison_holds_what_differs_and_any_text_is_safe() -> None:
    runs = [
        ComparedRun(
            replace(RECORD, run_id=name), f"row {name}", "paper/table", None,
            {"task.name": task, "seed": "1"}, History({}, {}),
        )
        for name, task in (("one", "morphology"), ("two", "</script>"))
    ]  # fmt: skip
    text = html_comparison(runs)
    assert '<option value="one">row one · one</option>' in text
    start = text.index(">", text.index('<script type="application/json"')) + 1
    data = json.loads(text[start : text.index("</script>", start)])
    assert data["first"] == ["one", "two"]
    assert data["metrics"] == {"test/accuracy": {"digits": 2, "higher": True}}
    assert data["runs"]["two"] == {
        "id": "two",
        "label": "row two",
        "page": None,
        "settings": {"task.name": "</script>"},
        "metrics": {"test/accuracy": 94.25},
        "x": {},
        "y": {},
    }


def test_validations_of_one_epoch_share_it_and_holes_stay(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, "demo", RECORD.run_id)
    rows = [
        {"epoch": 1, "step": 5, "seconds": 2.0, "dev_loss": 3.0, "trees": [1]},
        {"epoch": 1, "step": 10, "seconds": 4.0, "dev_accuracy": 50.0, "dev_loss": float("inf")},
        {"epoch": 2, "step": 20, "seconds": 9.0, "dev_loss": 1 / 3},
    ]
    assert history_of(folder) == History({}, {})
    folder.rewrite_history(rows)
    found = history_of(folder)
    assert found.x == {"epoch": [0.5, 1, 2], "update": [5, 10, 20], "time": [2, 4, 9]}
    assert found.y == {"dev_loss": [3.0, None, 0.333333], "dev_accuracy": [None, 50.0, None]}

"""Pages of single runs."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import measured
from links import data_of, dead_links

from repro.report import build_report
from repro.report.charts import chart_of
from repro.report.figures.attention import draw_example
from repro.report.many_runs import compared_run, comparison_page, list_page
from repro.report.render_html import html_run
from repro.results import Archive, publish, run_folder

RECORD = replace(
    measured.RECORD, config={"task": {"name": "<b>morphology</b>"}, "seed": 1},
    metrics={"test/accuracy": 94.25}, signatures={"test/accuracy": "accuracy|macro"},
)  # fmt: skip


def test_a_run_without_its_folder_has_settings_and_metrics(tmp_path):
    folder = run_folder(tmp_path, "demo", RECORD.run_id)
    text = html_run(RECORD, chart_of(folder, ""), {"../report.html#a": "paper/table"})
    assert '<td>94.25</td><td class="label">accuracy|macro</td>' in text
    assert "&lt;b&gt;morphology" in text
    assert '<a href="../report.html#a">paper/table</a>' in text
    assert "<script" not in text


def test_curves_have_holes_where_nothing_was_measured(tmp_path):
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


def test_a_damaged_history_is_left_out(tmp_path):
    folder = run_folder(tmp_path, "demo", RECORD.run_id)
    folder.path.mkdir(parents=True)
    folder.rewrite_history([{"step": 1, "dev_loss": 1.0}, {"step": 2, "dev_loss": 1.0}])
    folder.mark_done({})
    assert len(chart_of(folder, "")["y"]) == 1
    rows = folder.history.read_text().replace("1.0", "7.0")
    folder.history.write_text(rows)
    assert chart_of(folder, "")["y"] == {}


def test_the_comparison_holds_what_differs_and_any_text_is_safe(tmp_path):
    other = replace(
        RECORD, run_id="ba9876543210", config={"task": {"name": "</script>"}, "seed": 1}
    )
    rows = [
        compared_run(one, run_folder(tmp_path, "demo", one.run_id), f"row {place}", None)
        for place, one in enumerate((RECORD, other))
    ]
    text = comparison_page([{**row, "group": "paper/table"} for row in rows], [], {})
    data = data_of(text)
    assert data["metrics"] == {"test/accuracy": {"digits": 2, "higher": True}}
    assert data["runs"][1] == {
        "id": other.run_id, "label": "row 1", "page": None, "group": "paper/table",
        "x": {}, "y": {}, "settings": {"task.name": "</script>"},
        "metrics": {"test/accuracy": 94.25},
    }  # fmt: skip


def page_of(folder: Path, generated: bool, word: str = "secret") -> str:
    """The page of a run that kept an example with a word in its source."""
    config = {"task": {"name": "nmt"}, "seed": 1, "data": {"generated": generated}}
    record = replace(RECORD, config=config)
    row = {
        "index": 0, "split": "dev", "language": "a to b", "source": ["<tag:V>", word],
        "output": ["b", "</s>"], "gold": "b", "separator": " ", "weights": [[1.0, 0.0], [0.5, 0.5]],
    }  # fmt: skip
    home = run_folder(folder, "demo", record.run_id)
    home.write_attention([row])
    publish(folder, record)
    build_report(Archive(folder, "demo"), [])
    page = (folder / "demo" / "pages" / f"{record.run_id}.html").read_text(encoding="utf-8")
    assert (word in page) == ("<svg" in page)
    return page


def test_a_page_shows_an_output_of_a_generated_input_and_none_of_a_corpus(tmp_path):
    assert "<svg" in page_of(tmp_path / "a", True)
    assert "<svg" not in page_of(tmp_path / "b", False)


def test_examples_of_a_task_of_ones_own_are_not_drawn(tmp_path, caplog):
    publish(tmp_path, RECORD)
    home = run_folder(tmp_path, "demo", RECORD.run_id)
    home.write_attention([{"index": 0, "symbols": [1, 2], "weights": [0.5, 0.5]}])
    build_report(Archive(tmp_path, "demo"), [])
    assert not caplog.messages


def test_an_example_is_drawn_again_only_if_it_changes(tmp_path, monkeypatch):
    drawn = list[str]()

    def draw(row: dict[str, Any], mapping: str) -> Any:
        drawn.append(row["source"][1])
        return draw_example(row, mapping)

    monkeypatch.setattr("repro.report.build.draw_example", draw)
    first = page_of(tmp_path, True)
    assert page_of(tmp_path, True) == first
    (tmp_path / "demo" / "pages" / f"{RECORD.run_id}.html").write_text(first[:-5000])
    assert page_of(tmp_path, True) == first
    assert page_of(tmp_path, True, "changed") != first
    assert drawn == ["secret", "secret", "changed"]


def test_runs_whose_folders_are_here_have_pages_and_reports_do_not_differ(tmp_path):
    here, gone = RECORD, replace(RECORD, run_id="ba9876543210")
    for one in (here, gone):
        publish(tmp_path, one)
        run_folder(tmp_path, "demo", one.run_id).path.mkdir(parents=True)
    folder, written = tmp_path / "demo", []
    for left in ({here.run_id, gone.run_id}, {here.run_id}, set()):
        for path in (folder / "runs").iterdir():
            if path.name not in left:
                path.rmdir()
        build_report(Archive(tmp_path, "demo"), [])
        pages = {path.stem for path in (folder / "pages").glob("*.html")}
        assert pages == left | ({"compare"} if left else set())
        listed = folder / "pages" / "list.js"
        assert [one for one in (here.run_id, gone.run_id) if one in left] == (
            re.findall(r"\w{12}", listed.read_text()) if left else []
        )
        assert listed.exists() == bool(left)
        written.append(
            {name: (folder / name).read_bytes() for name in ("report.html", "runs.html")}
        )
    assert written[0] == written[1] == written[2]


def test_real_scales_share_the_list_of_runs_and_demo_has_its_own(tmp_path):
    scales = {"small": "a" * 12, "full": "b" * 12, "demo": "c" * 12}
    for scale, name in scales.items():
        publish(tmp_path, replace(RECORD, scale=scale, run_id=name))
        run_folder(tmp_path, scale, name).path.mkdir(parents=True)  # so that the run has a page
    for _ in range(2):
        reports = {scale: build_report(Archive(tmp_path, scale), []) for scale in scales}
    lists = {path.parent.name: path.read_text("utf-8") for path in tmp_path.rglob("runs.html")}
    runs = {folder: {row["run"] for row in data_of(page)["runs"]} for folder, page in lists.items()}
    real = {scales["small"], scales["full"]}
    assert runs == {tmp_path.name: real, "demo": {*scales.values()}}
    assert list_page(Archive(tmp_path, "small")) == list_page(Archive(tmp_path, "full"))
    assert [dead_links(report) for report in reports.values()] == [[], [], []]


def test_a_pair_of_sentences_is_drawn_in_words():
    row = {
        "premise": ["a", "b"], "hypothesis": ["c"], "predicted": "neutral", "gold": "entailment",
        "weights": [0.0, 1.0],
    }  # fmt: skip
    assert "premise: a b; hypothesis: c; gold: entailment" in draw_example(row)[1]


def test_an_ensemble_is_listed_with_the_settings_of_its_members(tmp_path):
    member = replace(RECORD, command="repro run mapping.alpha=2 seed=1")
    ensemble = replace(
        RECORD, run_id="e" * 12, kind="ensemble", seed=None, members=[member.run_id], command="c"
    )
    for one in (member, ensemble):
        publish(tmp_path, one)
    rows = data_of(list_page(Archive(tmp_path, "demo")))["runs"]
    shown = {row["run"]: row["settings"] for row in rows}
    assert shown == {member.run_id: "mapping.alpha=2", "e" * 12: "ensemble of 1 mapping.alpha=2"}


def test_a_group_of_runs_has_one_signature_of_each_metric(tmp_path):
    signatures = ["acc|macro:language|scorer:evalm2018|v:1", "acc|macro:language|scorer:evalm2018"]
    for seed, text in enumerate([*signatures, "acc|other:choice|v:1", "acc|other:choice"]):
        config = RECORD.config | {"seed": seed}
        publish(tmp_path, replace(RECORD, run_id=f"run{seed}", seed=seed, config=config,
                                  signatures={"test/accuracy": text}))  # fmt: skip
    rows = data_of(list_page(Archive(tmp_path, "demo")))["runs"]
    groups = {row["run"]: row["group"] for row in rows}
    assert groups["run0"] == groups["run1"] != groups["run2"] == groups["run3"]

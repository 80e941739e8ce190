import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from measured import measurement

from repro.report import build_report, document, export_figure_data
from repro.results import Archive, ResultsError, figure_path, record_path, run_folder

HYPOTHESES = {
    "index": 5, "language": "x", "lemma": "draw", "tags": [], "gold": "a", "finite": True,
    "hypotheses": [
        {"tokens": ["a"], "probability": 0.75, "steps": [0.75, 1.0]},
        {"tokens": ["b"], "probability": 0.25, "steps": [0.25, 1.0]},
    ],
}  # fmt: skip


@pytest.fixture
def known(experiment, figure_experiment, know):
    """The only experiments that the report knows."""
    know(figure_experiment, experiment)
    return {one.name: one for one in (figure_experiment, experiment)}


@pytest.fixture
def archive(tmp_path, known, records, filled):
    """The results of one table and one figure, both made up."""
    run = measurement(run_id="abc", scale="demo", value=80.0, column="dev", metric="dev/accuracy")
    run_folder(tmp_path, "demo", "abc").write_hypotheses([HYPOTHESES])
    export_figure_data(Archive(tmp_path, "demo"), known["paper2020/figure9"], [run])
    shutil.rmtree(tmp_path / "demo" / "runs")
    return filled(tmp_path, "demo", {"paper2020/table9": records, "paper2020/figure9": [run]})


@pytest.fixture
def results(archive: Archive) -> Path:
    return archive.results_dir


def written(results_dir: Path) -> dict[str, bytes]:
    files = [path for path in sorted(results_dir.rglob("*")) if path.is_file()]
    return {str(path.relative_to(results_dir)): path.read_bytes() for path in files}


def test_report_is_built_without_the_runs(archive, results):
    page = build_report(archive)
    assert page == results / "demo" / "report.html"
    assert set(written(results)) == {
        "demo/figures/paper2020/figure9.json",
        "demo/figures/paper2020/figure9.pdf",
        "demo/figures/paper2020/figure9.png",
        "demo/figures/paper2020/figure9.svg",
        "demo/report.html",
        "demo/report.md",
        "demo/tables/paper2020/table9.csv",
        "demo/tables/paper2020/table9.md",
        "demo/tables/paper2020/table9.tex",
    }
    html = page.read_text(encoding="utf-8")
    assert html.count("<svg") == 1
    assert "run abc (1 / a, corpus made-up, seed 1)" in html
    assert "with the largest dev/accuracy, 80.00; validation example 6" in html
    assert "A caption." in html
    assert "In the paper: A figure." in html
    assert html.count('<p class="banner"') == 1
    assert html.count('<span class="tag">demo scale, not comparable') == 2
    markdown = (results / "demo" / "report.md").read_text(encoding="utf-8")
    assert "](figures/paper2020/figure9.svg)" in markdown


def test_the_same_input_gives_the_same_bytes(archive, results):
    build_report(archive)
    first = written(results)
    for name in first:
        if not name.endswith("figure9.json"):
            (results / name).unlink()
    build_report(archive)
    assert written(results) == first


def test_tables_of_an_artefact_without_results_go(archive, results):
    build_report(archive)
    assert "demo/tables/paper2020/table9.tex" in written(results)
    build_report(Archive(results, "demo"))  # its settings have changed: none of the runs fits
    assert not {name for name in written(results) if "table9" in name}


def test_what_was_not_run_is_one_line_with_the_reason_if_there_is_another(tmp_path, known):
    html = build_report(Archive(tmp_path, "full")).read_text(encoding="utf-8")
    assert set(written(tmp_path)) == {"full/report.html", "full/report.md"}
    assert html.count("<li><b>paper2020/table9</b>") == 1
    assert html.count("<li><b>paper2020/figure9</b>") == 1
    assert "scale=full" in html
    markdown = (tmp_path / "full" / "report.md").read_text(encoding="utf-8")
    assert "repro reproduce paper2020/table9 scale=full" in markdown
    small = build_report(Archive(tmp_path, "small")).read_text(encoding="utf-8")
    assert small.count("has no small scale") == 2
    assert "repro reproduce" not in small


def test_a_damaged_record_is_named_and_hides_no_other(archive, results):
    torn = record_path(results, "demo", "torn")
    torn.parent.mkdir()
    torn.write_text('{"run_id": ')
    html = build_report(archive).read_text(encoding="utf-8")
    assert "1 damaged record left out; the values lack them." in html
    assert "<li>records/torn.json: not JSON" in html
    assert "run abc (1 / a, corpus made-up, seed 1)" in html
    markdown = (results / "demo" / "report.md").read_text(encoding="utf-8")
    assert "> **1 damaged record left out:**\n> - records/torn.json: not JSON" in markdown


def test_a_figure_without_data_is_drawn_if_its_runs_are_here_and_else_says_why(archive, results):
    name, folder = "paper2020/figure9", run_folder(results, "demo", "abc")
    figure_path(results, "demo", name, "json").unlink()
    html = build_report(archive).read_text(encoding="utf-8")
    assert "not drawn: the folders of its runs are not here" in html
    assert "<svg" not in html
    archive.__dict__["records"] = []  # read from the folders of runs otherwise
    folder.write_hypotheses([])
    folder.mark_done({})
    html = build_report(archive, ["paper2020/table9"]).read_text(encoding="utf-8")
    assert "folders of its runs are not here" not in html
    assert "not drawn: " in html
    with pytest.raises(ResultsError):
        build_report(archive, [name])
    folder.write_hypotheses([HYPOTHESES])
    folder.mark_done({})
    build_report(archive, ["paper2020/table9"])  # also one that was not asked for
    assert figure_path(results, "demo", name, "svg").exists()


def test_a_figure_of_the_library_is_taken_from_another_scale(tmp_path):
    name = "peters2019/figure3"
    made = Path(document.__file__).parents[2] / "results" / "small" / "figures" / f"{name}.json"
    copy = tmp_path / "small" / "figures" / made.relative_to(made.parents[1])
    copy.parent.mkdir(parents=True)
    copy.write_bytes(made.read_bytes())
    html = build_report(Archive(tmp_path, "full")).read_text(encoding="utf-8")
    assert 'id="peters2019-figure3"' in html
    assert not (tmp_path / "full" / "figures").exists()  # one copy is enough
    assert figure_path(tmp_path, "small", name, "svg").exists()
    assert f'href="../small/figures/{name}.svg"' in html
    markdown = (tmp_path / "full" / "report.md").read_text(encoding="utf-8")
    assert f"](../small/figures/{name}.svg)" in markdown


def test_values_of_earlier_versions_are_marked(archive, known, filled):
    name = "paper2020/table9"
    records = archive.measurements(known[name])
    cases = ((("b1", "b3"), "42.00 ± 1.41 (2/3)†"), (("b1",), "43.00 (1/3)"))
    for runs, shown in cases:
        old = [
            replace(one, epoch=0, commit="0ld") if one.run_id in runs else one for one in records
        ]
        page = build_report(filled(archive.results_dir, "demo", {name: old}), [name])
        folder = archive.results_dir / "demo" / "tables"
        table = (folder / f"{name}.md").read_text(encoding="utf-8")
        assert "| **52.00 ± 1.00** |" in table
        assert f"| {shown} |" in table
        assert ("(numeric epoch 0)" in page.read_text(encoding="utf-8")) == ("†" in shown)
    every = [replace(one, epoch=0) for one in records]
    page = build_report(filled(archive.results_dir, "demo", {name: every}), [name])
    text = page.read_text(encoding="utf-8")
    assert "(numeric epoch 0)" in text
    assert "†" not in text  # one note in place of a mark at every value


def test_figure_is_redrawn_from_its_data_alone(archive, results):
    build_report(archive)
    before = figure_path(results, "demo", "paper2020/figure9", "svg").read_bytes()
    path = figure_path(results, "demo", "paper2020/figure9", "json")
    content = json.loads(path.read_text())
    content["example"]["gold"] = "b"
    path.write_text(json.dumps(content))
    build_report(archive)
    assert figure_path(results, "demo", "paper2020/figure9", "svg").read_bytes() != before


def test_every_experiment_of_the_project_is_in_the_report(tmp_path):
    html = build_report(Archive(tmp_path, "demo")).read_text(encoding="utf-8")
    for name in document.list_experiments():
        assert f"<b>{name}</b>" in html

"""The page on adding a task: its files, in a folder of their own, make a task that runs."""

from pathlib import Path

import pytest
from tutorial import Page

from repro.results import figure_path, read_records, table_path


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """The page after its commands."""
    page = Page("add-a-task.md", tmp_path_factory.mktemp("page"), "training.max_epochs=2")
    for command in page.commands:
        page.succeed(*command)
    return page


@pytest.fixture(scope="module")
def results(page: Page) -> Path:
    return page.folder / "results"


def test_its_files_are_of_all_kinds(page):
    assert len(page.files) >= 10
    assert {path.split("/")[0] for path in page.files} == {"repro", "conf", "experiments"}


def test_the_table_holds_what_the_runs_measured(results):
    records = read_records(results, "demo")
    runs = {(one.settings["mapping.name"], one.seed): one.metrics for one in records}
    assert set(runs) == {(row, seed) for row in ("softmax", "sparsemax") for seed in (1, 2)}
    accuracy = {run: metrics["test/marked_accuracy"] for run, metrics in runs.items()}
    assert min(accuracy.values()) > 2 * 100 / 6  # six symbols
    nonzeros = {run: metrics["test/marked_nonzeros"] for run, metrics in runs.items()}
    assert nonzeros["softmax", 1] == 100 > nonzeros["sparsemax", 1]
    table = table_path(results, "demo", "example/table1", "md").read_text()
    mean = (accuracy["softmax", 1] + accuracy["softmax", 2]) / 2
    assert f"{mean:.1f}" in table


def test_the_figure_shares_a_run_with_the_table(page, results):
    assert len(page.runs()) == 4
    assert figure_path(results, "demo", "example/figure1", "png").exists()
    report = (results / "demo" / "report.html").read_text()
    assert "Naming the marked symbol" in report
    assert "Weights: " in report


def test_the_best_run_predicts(page):
    chosen = ["--best", "test/marked_accuracy", "task=marked", "--text"]
    done = page.run("predict", *chosen, "0 [4] 5", "--text", "[2] 2 2")
    assert done.stdout == "4\n2\n", done.stderr
    assert (page.folder / "weights.svg").read_text().startswith("<svg")
    errors = page.refuse("predict", *chosen, "0 [9] 5")
    assert "input 1:1: expected symbols below 6, found [9]" in errors


def test_its_ranges_are_checked_and_its_artefacts_listed(page):
    errors = page.refuse("run", "task=marked", "data.symbols=1")
    assert "data.symbols is 1; expected a number > 1" in errors
    assert "example/table1" in page.run("reproduce", "--list").stdout

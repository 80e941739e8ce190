"""The page on adding a task: its files, in a folder of their own, make a task that runs."""

import re
import shlex
from pathlib import Path
from subprocess import CompletedProcess

import forked
import pytest

from repro.results import figure_path, list_runs, read_records, table_path

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "add-a-task.md").read_text(encoding="utf-8")
FILES = dict(
    re.findall(r"^`(\S+)`:\n\n```(?:python|yaml)\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
)
COMMANDS = re.findall(r"^\$ repro (.+)$", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of the page's commands, run with its files as an extension."""
    folder = tmp_path_factory.mktemp("page")
    for path, text in FILES.items():
        (folder / "extension" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "extension" / path).write_text(text, encoding="utf-8")
    for command in COMMANDS:
        done = repro(folder, *shlex.split(command))
        assert done.returncode == 0, done.stderr
    return folder / "results"


def repro(folder: Path, *arguments: str) -> "CompletedProcess[str]":
    environment = {
        "REPRO_EXTENSIONS": str(folder / "extension"),
        "REPRO_RESULTS_DIR": str(folder / "results"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return forked.run(*arguments, cwd=folder, environment=environment)


def test_the_page_touches_no_file_that_exists() -> None:
    assert len(FILES) >= 10
    assert [path for path in FILES if (ROOT / path).exists()] == []
    assert {path.split("/")[0] for path in FILES} == {"repro", "conf", "experiments"}


def test_the_table_holds_what_the_runs_measured(results: Path) -> None:
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


def test_the_figure_shares_a_run_with_the_table(results: Path) -> None:
    assert len(list_runs(results, "demo")) == 4
    assert figure_path(results, "demo", "example/figure1", "png").exists()
    report = (results / "demo" / "report.html").read_text()
    assert "Naming the marked symbol" in report
    assert "Weights: " in report


def test_the_best_run_predicts(results: Path) -> None:
    chosen = ["--best", "test/marked_accuracy", "task=marked", "--text"]
    done = repro(results.parent, "predict", *chosen, "0 [4] 5", "--text", "[2] 2 2")
    assert done.stdout == "4\n2\n", done.stderr
    assert (results.parent / "weights.svg").read_text().startswith("<svg")
    refused = repro(results.parent, "predict", *chosen, "0 [9] 5")
    assert refused.returncode == 2
    assert "input 1:1: expected symbols below 6, found [9]" in refused.stderr


def test_its_ranges_are_checked_and_its_artefacts_listed(results: Path) -> None:
    refused = repro(results.parent, "run", "task=marked", "data.symbols=1")
    assert refused.returncode == 2
    assert "data.symbols is 1; expected a number > 1" in refused.stderr
    listed = repro(results.parent, "reproduce", "--list")
    assert "example/table1" in listed.stdout

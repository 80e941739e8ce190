"""Labels of runs: what a reader of a list or of the display of a sweep sees."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from measured import RECORD

from repro.cli import main
from repro.config.experiment import load_experiment
from repro.config.planning import plan_runs
from repro.results import RunFolder, run_folder
from repro.results.labels import age_text, run_title
from repro.runs.display import RunState
from repro.runs.launch import prepare_jobs
from repro.runs.locking import run_lock
from repro.runs.summary import labels_of


def finished(results: Path, name: str, **changes: object) -> RunFolder:
    folder = run_folder(results, "demo", name)
    folder.mark_running()
    folder.write_record(replace(RECORD, run_id=name, **changes))
    folder.mark_done({})
    return folder


def test_the_newest_runs_are_told_apart(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    command = "repro reproduce peters2019/table1 scale=demo"
    names = {"a" * 12: "softmax", "b" * 12: "sparsemax"}
    for name, mapping in names.items():
        config = {"task": {"name": "nmt"}, "mapping": {"name": mapping},
                  "loss": {"name": "entmax", "alpha": 1.5}}  # fmt: skip
        finished(tmp_path, name, kind="ensemble", seed=None, members=["c", "d"],
                 config=config, command=command, metrics={"test/bleu": 80.25},
                 signatures={"test/bleu": "s"})  # fmt: skip
    assert main(["show", f"results_dir={tmp_path}"]) == 0
    titles, *rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 2
    for row in rows:
        assert names[row.split()[0]] in row[titles.index("title") :]
        assert "ensemble of 2" in row
        assert "80.25" in row[titles.index("result") :]
        assert row[titles.index("age") :].startswith("now")
    assert main(["show", "--json", f"results_dir={tmp_path}"]) == 0
    assert {one["title"] for one in json.loads(capsys.readouterr().out)} == {
        f"nmt: {mapping}, loss entmax 1.5, {RECORD.corpus}, ensemble of 2"
        for mapping in names.values()
    }  # fmt: skip


def test_a_title_names_choices_and_seed():
    settings = {"task.name": "nmt", "mapping.name": "entmax", "mapping.alpha": 1.5, "seed": 3}
    assert run_title(settings, "mine") == "nmt: entmax 1.5, mine, seed 3"
    assert [age_text(one) for one in (5, 60, 7200, 200000)] == ["now", "1 min ago", "2 h ago",
                                                                "2 d ago"]  # fmt: skip


def test_a_run_of_an_artefact_is_named_by_its_cell(tmp_path):
    planned = next(plan_runs(load_experiment("niculae2018/table1"), "demo"))
    for part in (planned.experiment, planned.row, planned.column, f"{planned.value:.12g}"):
        assert part in planned.label
    where = f"results_dir={tmp_path}"
    (job,) = prepare_jobs([[*planned.overrides, where]])
    named = replace(job, label=planned.label)
    assert labels_of([named]) == {job.run_id: planned.label}
    assert named.outcome("failed").label == planned.label


@pytest.mark.parametrize("sign", ["", "++"])
def test_of_an_override_given_twice_only_the_last_is_shown(sign, tmp_path):
    where = [f"results_dir={tmp_path}", "hardware=cpu"]
    jobs = prepare_jobs([[*where, f"seed={seed + 3}", f"{sign}seed={seed}"] for seed in (2, 3)])
    assert [*labels_of(jobs).values()] == [f"{sign}seed=2", f"{sign}seed=3"]


def test_the_search_path_is_in_no_label(tmp_path):
    typed = [f"results_dir={tmp_path}", "seed=2"]
    (job,) = prepare_jobs([[*typed, f"hydra.searchpath=['{tmp_path}']"]])
    assert [*labels_of([job]).values()] == [" ".join(typed)]
    assert job.outcome("done").label == " ".join(typed)


def test_a_finished_run_shows_its_result(tmp_path):
    folder = finished(tmp_path, "a" * 12, metrics={"test/accuracy": 71.5},
                      signatures={"test/accuracy": "s"})  # fmt: skip
    state = RunState(folder, "")
    state.poll()
    assert (state.status, state.text) == ("done", "test/accuracy 71.50")


def test_a_sweep_that_nobody_works_on_says_how_to_continue(tmp_path, capsys):
    sweep = tmp_path / "demo" / "sweeps" / "1" / "sweep.json"
    sweep.parent.mkdir(parents=True)
    command = "repro run -m seed=1,2"
    sweep.write_text(json.dumps({"command": command, "runs": {"aa": "x", "bb": "y"}, "jobs": {}}))
    run_folder(tmp_path, "demo", "aa").mark_running()
    assert main(["status", f"results_dir={tmp_path}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"] == {"interrupted": 1, "queued": 1}
    assert main(["status", f"results_dir={tmp_path}"]) == 0
    assert capsys.readouterr().out.splitlines()[-2].endswith(f": {command}")
    with run_lock(sweep.parent):  # as the command does, which may be starting its workers
        assert main(["status", f"results_dir={tmp_path}"]) == 0
    assert not capsys.readouterr().out.splitlines()[-2].endswith(f": {command}")


def test_the_main_metric_of_a_run_is_printed_first(tmp_path, capsys):
    metrics = {"dev/accuracy": 70.0, "dev/loss": 1.0, "test/accuracy": 71.5}
    finished(tmp_path, "a" * 12, metrics=metrics, signatures=dict.fromkeys(metrics, "s"))
    assert main(["show", "aa", f"results_dir={tmp_path}"]) == 0
    lines = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert lines[-3:] == ["test/accuracy", "dev/accuracy", "dev/loss"]

"""Ensembles of an artefact: what they need, what a plan says of it, and how they fail."""

import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from three_runs import add_table

from repro.cli import main
from repro.config import ConfigError
from repro.errors import UserError
from repro.results import (
    Archive,
    Record,
    RunFolder,
    list_runs,
    publish,
    read_record,
    read_records,
    record_path,
    run_folder,
    runs_dir,
)
from repro.runs import train
from repro.runs.plan import plan
from repro.runs.reproduce import reproduce
from repro.version import NUMERIC_EPOCH

NAME = "paper2020/table8"
TABLE = """\
kind: table
title: "Inflection, and ensembles"
place: "Table 8"
base: [task=morphology, task.setting=medium]
seeds: [1, 2]
rows: [{name: loss, values: {softmax: [loss=cross_entropy], entmax: [loss=entmax]}}]
metric: test/accuracy
columns: [{name: models, values: {"(avg.)": [], "(ens.)": [aggregate=ensemble]}}]
scales: {demo: {}}
"""
RUNS, ENSEMBLES = 4, 2


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of the table, not to be changed."""
    return tmp_path_factory.mktemp("made")


@pytest.fixture
def results(
    made: Path, tiny: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Overrides of the table, which is made in their results folder."""
    add_table(tmp_path, monkeypatch, NAME, TABLE)
    if not any(made.iterdir()):
        done = reproduce([NAME], "demo", [*tiny[1:], f"results_dir={made}"])
        assert [one.status for one in done.outcomes] == ["done"] * RUNS
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tiny


def planned(results: list[str]) -> tuple[int, int, dict[str, int]]:
    """Numbers of runs done and to do, and the reasons."""
    ((artefact,), estimate) = plan([NAME], "demo", results)
    assert len(artefact.todo) == estimate.to_do
    return artefact.done, len(artefact.todo), dict(artefact.reasons)


def ensembles(results_dir: Path) -> list[Record]:
    return [one for one in read_records(results_dir, "demo") if one.kind == "ensemble"]


def members(results_dir: Path) -> list[RunFolder]:
    """Folders of all runs, ensembles left out."""
    names = {one.run_id for one in ensembles(results_dir)}
    return [folder for folder in list_runs(results_dir, "demo") if folder.run_id not in names]


def test_recorded_ensembles_need_no_folder(results, tmp_path):
    shutil.rmtree(runs_dir(tmp_path, "demo"))
    assert planned(results) == (RUNS, 0, {})
    assert reproduce([NAME], "demo", results).outcomes == []
    assert list_runs(tmp_path, "demo") == []


def change_records(results_dir: Path, **changes: Any) -> None:
    """Change fields of the records of all runs; ensembles are removed."""
    for one in ensembles(results_dir):
        record_path(results_dir, "demo", one.run_id).unlink()
        shutil.rmtree(run_folder(results_dir, "demo", one.run_id).path)
    for folder in members(results_dir):
        publish(results_dir, replace(folder.read_record(), **changes))


def test_members_of_an_earlier_epoch_are_repeated(results, tmp_path):
    change_records(tmp_path, epoch=NUMERIC_EPOCH - 1)
    assert planned(results) == (0, RUNS, {"without a complete folder": RUNS})


def test_runs_without_the_metric_of_their_column_are_warned_of(results, tmp_path, caplog):
    metrics = members(tmp_path)[0].read_record().metrics
    change_records(tmp_path, metrics={"dev/loss": metrics["dev/loss"]})
    reproduce([NAME], "demo", results)
    assert f"{RUNS} runs without test/accuracy" in caplog.text


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ("metric: test/accuracy", "metric: test/acuracy"),
        ("metric: test/accuracy", "metric: tset/accuracy"),
        ("kind: table", "kind: figure\ndrawing: {name: attention, best: dev/acuracy}"),
        ("kind: table", "kind: figure\ndrawing: {name: atention}"),
        ("columns:", "tune: {key: model.dropout, values: [0.5], metric: dev/acuracy}\ncolumns:"),
    ],
)
def test_unknown_names_are_refused_before_anything_runs(given, wrong, results, tmp_path):
    file = tmp_path / f"extension/experiments/{NAME}.yaml"
    text = TABLE.replace(given, wrong).replace("[aggregate=ensemble]", "[]")
    file.write_text(text, encoding="utf-8")
    shutil.rmtree(tmp_path / "demo")
    if "atention" not in wrong:  # a plan does not import Matplotlib
        with pytest.raises(ConfigError, match=NAME):
            plan([NAME], "demo", results)
    with pytest.raises(UserError, match=r"acuracy|atention|tset"):
        reproduce([NAME], "demo", results)
    assert not runs_dir(tmp_path, "demo").exists()


def test_an_ensemble_of_other_members_is_another(results, tmp_path):
    before = ensembles(tmp_path)
    assert len(before) == ENSEMBLES
    shutil.rmtree(runs_dir(tmp_path, "demo"))
    record_path(tmp_path, "demo", before[0].members[0]).unlink()
    reasons = {"new": 1, "without a complete folder": 1}  # the other member, for the new ensemble
    assert planned(results) == (RUNS - 2, 2, reasons)


def train_anew(folder: RunFolder) -> Record:
    """Give a run another time of its end, as a training under the same name does."""
    record = replace(folder.read_record(), finished="2036-01-02T03:04:05+00:00")
    folder.write_record(record)
    folder.mark_done({})
    publish(folder.path.parents[2], record)
    return record


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Tasks of the ensembles that are evaluated."""
    evaluation, tasks = train.ensemble_evaluation, list[str]()

    def noted(task: str) -> object:
        tasks.append(task)
        return evaluation(task)

    monkeypatch.setattr(train, "ensemble_evaluation", noted)
    return tasks


def test_an_ensemble_of_a_member_trained_anew_is_made_again(results, evaluated, tmp_path):
    before, other = ensembles(tmp_path)
    trained = train_anew(run_folder(tmp_path, "demo", before.members[0]))
    found = Archive(tmp_path, "demo")
    of_member = [one for one in found.records if one.run_id in before.members]
    assert found.ensembles_of(of_member) == []
    assert planned(results) == (RUNS, 0, {})
    for _ in range(2):  # once
        assert reproduce([NAME], "demo", results).outcomes == []
        assert len(evaluated) == 1
    after, same = ensembles(tmp_path)
    assert (after.run_id, same) == (before.run_id, other)
    assert after.members_finished == before.members_finished | {trained.run_id: trained.finished}
    assert after == run_folder(tmp_path, "demo", after.run_id).read_record()
    assert Archive(tmp_path, "demo").ensembles_of(of_member) == [after]


def test_an_ensemble_of_a_member_trained_anew_needs_the_weights_of_all(results, tmp_path):
    before, _ = ensembles(tmp_path)
    first, second = (run_folder(tmp_path, "demo", name) for name in before.members)
    train_anew(first)
    second.remove_weights()
    assert planned(results) == (RUNS - 1, 1, {"without a complete folder": 1})


def test_an_ensemble_that_does_not_say_when_its_members_finished_counts(
    results, evaluated, tmp_path
):
    for one in ensembles(tmp_path):
        folder = run_folder(tmp_path, "demo", one.run_id)
        folder.write_record(replace(one, members_finished={}))
        assert "members_finished" not in folder.record.read_text()
        folder.mark_done({})
        publish(tmp_path, folder.read_record())
        train_anew(run_folder(tmp_path, "demo", one.members[0]))
    assert reproduce([NAME], "demo", results).outcomes == []
    assert evaluated == []


def test_the_records_of_members_become_those_of_their_weights(results, evaluated, tmp_path):
    one, _ = ensembles(tmp_path)
    own = run_folder(tmp_path, "demo", one.members[0]).read_record()
    publish(tmp_path, replace(own, finished="2036-01-02T03:04:05+00:00"))  # of another machine
    assert reproduce([NAME], "demo", results).outcomes == []
    assert evaluated == []
    assert read_record(record_path(tmp_path, "demo", own.run_id)) == own


def test_the_command_of_an_ensemble_has_the_settings_of_its_members(results, tmp_path):
    numbers = [one for one in results[1:] if not one.startswith(("results_dir=", "hardware"))]
    for one in ensembles(tmp_path):
        words = shlex.split(one.command)
        assert words[:4] == ["repro", "reproduce", NAME, "scale=demo"]
        assert {*numbers} <= {*words[4:]}
        assert not any(word.startswith(("results_dir=", "hardware")) for word in words)


def test_a_damaged_ensemble_is_made_again(results, tmp_path):
    one, _ = ensembles(tmp_path)
    folder = run_folder(tmp_path, "demo", one.run_id)
    folder.statistics.write_bytes(b"")
    assert reproduce([NAME], "demo", results).outcomes == []
    assert (folder.status, folder.damaged_files()) == ("done", [])
    assert ensembles(tmp_path)[0].metrics == one.metrics


def test_members_without_weights_are_trained_for_an_ensemble_to_make(results, tmp_path, capsys):
    for folder in members(tmp_path):
        folder.remove_weights()
    assert planned(results) == (RUNS, 0, {})  # the ensembles are recorded
    lost, kept = ensembles(tmp_path)
    record_path(tmp_path, "demo", lost.run_id).unlink()
    shutil.rmtree(runs_dir(tmp_path, "demo") / lost.run_id)
    assert planned(results) == (RUNS - 2, 2, {"without a complete folder": 2})
    reproduce([NAME], "demo", results, dry_run=True)
    *listed, total = capsys.readouterr().out.splitlines()
    assert {tuple(line.split()[:2]) for line in listed} == {(m, "queued") for m in lost.members}
    assert total == f"2 runs to do, {RUNS - 2} done"
    done = reproduce([NAME], "demo", results)
    assert {one.run_id: one.status for one in done.outcomes} == dict.fromkeys(lost.members, "done")
    again = {one.run_id: one for one in ensembles(tmp_path)}
    assert again.keys() == {lost.run_id, kept.run_id}
    assert again[lost.run_id].metrics == lost.metrics
    assert planned(results) == (RUNS, 0, {})
    assert [f.run_id for f in members(tmp_path) if not f.model.exists()] == sorted(kept.members)


def test_an_ensemble_that_fails_stops_neither_the_others_nor_the_report(
    results, tmp_path, monkeypatch, capsys
):
    before = ensembles(tmp_path)
    for one in before:
        record_path(tmp_path, "demo", one.run_id).unlink()
        shutil.rmtree(runs_dir(tmp_path, "demo") / one.run_id)
    evaluation, calls = train.ensemble_evaluation, list[str]()

    def first_fails(task: str) -> object:
        calls.append(task)
        if len(calls) == 1:
            raise RuntimeError("no memory left")
        return evaluation(task)

    with monkeypatch.context() as patched:
        patched.setattr(train, "ensemble_evaluation", first_fails)
        assert main(["reproduce", NAME, *results]) == 1
    printed = capsys.readouterr()
    (made,) = ensembles(tmp_path)
    (failed,) = [one for one in before if one.run_id != made.run_id]
    folder = run_folder(tmp_path, "demo", failed.run_id)
    assert folder.status == "failed"
    for text in (f"{failed.run_id}  {NAME}: softmax, (ens.)", "RuntimeError: no memory left"):
        assert text in printed.err
    report = Path(printed.out.split()[-1])
    assert failed.run_id in report.read_text(encoding="utf-8")

    assert reproduce([NAME], "demo", results).outcomes == []
    assert folder.status == "done"
    assert [one.metrics for one in ensembles(tmp_path)] == [one.metrics for one in before]

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from measured import RECORD

from repro.config.compose import compose_run
from repro.results import ResultsError, publish, run_folder
from repro.runs.cleanup import needed, run_rows
from repro.runs.job import locate
from repro.runs.locking import remove_locked, run_state
from repro.runs.train import _take_over_training


def test_members_of_an_ensemble_are_kept(tmp_path):
    for name in ("aa11", "ab22", "ac33"):
        run_folder(tmp_path, "demo", name).mark_running()
    members = ["aa11", "ab22"]
    ensemble = replace(RECORD, run_id="e1", kind="ensemble", seed=None, members=members)
    publish(tmp_path, ensemble)
    assert sorted(needed(tmp_path)) == members


def test_null_selects_runs_that_have_the_setting(tmp_path):
    for name, config in (("aa11", "task: {shown: null}"), ("ab22", "mapping: {name: softmax}")):
        folder = run_folder(tmp_path, "demo", name)
        folder.mark_running()
        folder.write_config(config)
    assert [row["run_id"] for row in run_rows(tmp_path, ["task.shown=null"])] == ["aa11"]
    assert [row["run_id"] for row in run_rows(tmp_path, ["mapping=softmax"])] == ["ab22"]
    with pytest.raises(ResultsError, match=r"did you mean 'mapping\.name'"):
        run_rows(tmp_path, ["maping.name=null"])


def test_a_folder_of_data_is_no_other_of_its_name(tmp_path):
    for name, place in (("aa11", "x"), ("ab22", "y")):
        folder = run_folder(tmp_path, "demo", name)
        folder.mark_running()
        folder.write_config(f"data: {{folder: /own/{place}/c}}")
    for typed, found in (
        ("/own/x/c", ["aa11"]), ("/own/./x/c", ["aa11"]), ("/nowhere/c", []),
        ("c", ["aa11", "ab22"]),
    ):  # fmt: skip
        rows = run_rows(tmp_path, [f"data.folder={typed}"])
        assert sorted(row["run_id"] for row in rows) == found


def test_a_state_that_no_run_can_have_is_refused(tmp_path):
    run_folder(tmp_path, "demo", "aa11").mark_running()
    assert [row["run_id"] for row in run_rows(tmp_path, ["state=interrupted,done"])] == ["aa11"]
    with pytest.raises(ResultsError, match=r"state=doen: expected one of done, failed"):
        run_rows(tmp_path, ["state=done,doen"])
    assert run_rows(tmp_path, ["state=done"]) == []
    with pytest.raises(ResultsError, match="agrees with run_id=aa1"):
        run_rows(tmp_path, ["run_id=aa1"])


def test_what_an_interrupted_removal_leaves_is_no_training(
    copied, summarizer, monkeypatch, tmp_path
):
    job, whole = locate(compose_run(summarizer)), tmp_path / "whole"
    device, history = copied.read_training()["device"], copied.read_history()
    (copied.path / "logged-csv").touch()
    (copied.path / "lock").touch()
    copied.path.rename(whole)
    number = sum(path.is_file() for path in whole.rglob("*"))
    assert number > 10
    unlink, allowed = os.unlink, 0

    def interrupted(path: Path, **options: int) -> None:
        nonlocal allowed
        if not allowed:
            raise KeyboardInterrupt
        allowed -= 1
        unlink(path, **options)

    for removed in range(1, number):  # the lock goes last
        shutil.copytree(whole, copied.path, dirs_exist_ok=True)
        allowed = removed
        with monkeypatch.context() as patched:
            patched.setattr(os, "unlink", interrupted)
            with pytest.raises(KeyboardInterrupt):
                remove_locked(copied.path)
        assert run_state(copied) == "interrupted"
        taken = _take_over_training(job, device)
        # Only the mark of the end is gone at first.
        assert taken is None if removed > 1 else taken.history == history

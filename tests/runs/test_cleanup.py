from dataclasses import replace

import pytest
from measured import RECORD

from repro.results import ResultsError, publish, run_folder
from repro.runs.cleanup import needed, run_rows


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

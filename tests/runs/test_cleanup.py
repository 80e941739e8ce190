from dataclasses import replace

from measured import RECORD

from repro.results import publish, run_folder
from repro.runs.cleanup import needed


def test_members_of_an_ensemble_are_kept(tmp_path):
    for name in ("aa11", "ab22", "ac33"):
        run_folder(tmp_path, "demo", name).mark_running()
    members = ["aa11", "ab22"]
    ensemble = replace(RECORD, run_id="e1", kind="ensemble", seed=None, members=members)
    publish(tmp_path, ensemble)
    assert sorted(needed(tmp_path)) == members

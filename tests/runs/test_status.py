"""Status of sweeps, machines and command lines."""

import json
import sys
from dataclasses import replace
from importlib.util import find_spec

import pytest
from measured import RECORD

from repro.atomic import atomic_write_json
from repro.cli import main
from repro.config.completion import complete
from repro.config.experiment import list_experiments
from repro.config.loading import group_choices
from repro.results import RunFolder, publish
from repro.runs.display import RunState, SweepDisplay
from repro.runs.locking import run_lock
from repro.runs.show import sweep_status

PLUGINS = ["joblib"] if find_spec("hydra_plugins.hydra_joblib_launcher") else []
"""Launchers of other packages that are installed."""
PROGRESS = {"share": 0.5, "epoch": 3, "epochs": 6, "metric": "accuracy", "value": 71.5}


def test_a_sweep_is_found_and_its_failed_run_listed(tiny, tmp_path, capsys, refused):
    short = [*tiny, "training.max_steps=1", "task.stored_examples=1"]
    assert main(["run", "-m", *short, "seed=1,2", "-q"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["status", f"results_dir={tmp_path}"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "2 done"
    folder = RunFolder(next((tmp_path / "demo" / "runs").iterdir()))
    folder.done.unlink()
    folder.mark_failed("Traceback\nValueError: too large\n")
    (sweep,) = (one for one in (tmp_path / "demo" / "sweeps").iterdir() if one.is_dir())
    assert main(["status", sweep.name[:8], f"results_dir={tmp_path}"]) == 1
    printed = capsys.readouterr().out
    (line,) = [line for line in printed.splitlines() if line.startswith(folder.run_id)]
    assert "failed" in line
    assert line.endswith("ValueError: too large")
    assert main(["status", "1999", f"results_dir={tmp_path}"]) == 2
    assert "1999: expected one sweep" in refused(
        "status", sweep.name, "1999", f"results_dir={tmp_path}"
    )


@pytest.mark.parametrize(
    "text", ["{", "[]", "\xff", '{"command": "x", "runs": [], "jobs": {}}', '{"command": "x"}']
)
def test_a_damaged_file_of_a_sweep_is_named(tmp_path, refused, text):
    path = tmp_path / "demo" / "sweeps" / "1" / "sweep.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode("latin-1"))
    assert str(path) in refused("status", f"results_dir={tmp_path}")


def test_a_run_whose_folder_was_removed_is_done_if_it_has_a_record(tmp_path):
    record = replace(RECORD, run_id="aa11", scale="demo")
    publish(tmp_path, record)
    runs = {"aa11": "seed=1", "ab22": "seed=2"}
    path = tmp_path / "demo" / "sweeps" / "1" / "sweep.json"
    atomic_write_json(path, {"command": "x", "runs": runs, "jobs": {}})
    found = sweep_status(tmp_path, None)
    assert [row["status"] for row in found["runs"]] == ["done", "queued"]


def test_the_display_reads_folders_and_estimates_the_time_left(tmp_path, monkeypatch, capsys):
    clock = [0.0]
    monkeypatch.setattr("repro.runs.display.time.monotonic", lambda: clock[0])
    folders = [RunFolder(tmp_path / name) for name in "abc"]
    display = SweepDisplay([RunState(one, one.run_id) for one in folders])
    assert display._time_left() == ""
    folders[0].mark_running()
    folders[1].mark_running()
    with run_lock(folders[0].path):
        folders[0].write_progress(PROGRESS | {"share": 0.25})
        display._poll()
        folders[0].write_progress(PROGRESS)
        folders[1].mark_failed("KeyError: 'x'\n")
        clock[0] = 30.0
        display._poll()
    (line,) = capsys.readouterr().err.splitlines()[:1]
    assert line.endswith("1 of 3  b, 0:00:36 left")
    states = display.states
    assert [states[name].status for name in "abc"] == ["running", "failed", "queued"]
    assert states["a"].text == "epoch 3/6  accuracy 71.5"
    assert display._time_left() == ", 0:00:36 left"  # 1.25 runs in 30 s, 1.5 to go
    assert display._counted == "1 of 3"
    assert SweepDisplay([RunState(folders[2], "")], before=4, total=20)._counted == "4 of 20"


def test_the_doctor_names_what_is_missing_and_what_is_broken(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("shutil.which", lambda name: None)
    settings = [f"data_dir={tmp_path}", f"results_dir={tmp_path}"]
    assert main(["doctor", *settings]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = {line[8:22].strip(): line.split()[0] for line in lines if not line.startswith(" ")}
    assert {"Python": "ok", "Java": "missing", "Slurm": "missing", "METEOR": "missing"}.items() <= (
        found.items()
    )
    assert main(["doctor", settings[0], "results_dir=/dev/null/below"]) == 1


def test_the_doctor_notices_another_package_of_the_same_name(tmp_path, monkeypatch, capsys):
    for name in ("repro", "repro-sparse-attention"):
        folder = tmp_path / f"{name.replace('-', '_')}-3.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: {name}\nVersion: 3.0\n", encoding="utf-8")
        (folder / "top_level.txt").write_text("repro\n", encoding="utf-8")
    monkeypatch.setattr("sys.path", [*sys.path, str(tmp_path)])
    assert main(["doctor", "--json", f"data_dir={tmp_path}", f"results_dir={tmp_path}"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in found if one["status"] == "broken"] == ["repro"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("repro rep", ["report ", "reproduce "]),
        ("repro run mapping=s", [f"mapping={n}" for n in group_choices("mapping") if n[0] == "s"]),
        ("repro run hydra/launcher=", ["basic", *PLUGINS, "local", "slurm"]),
        ("repro run task=parsing model.lst", ["model.lstm_size="]),
        ("repro run mapping.", ["mapping.alpha=", "mapping.solver="]),
        ("repro run +e", ["+experiment="]),
        ("repro run +experiment=", ["+experiment=entmax_everywhere"]),
        ("repro reproduce peters2019/", [n for n in list_experiments() if n[0] == "p"]),
        ("repro show x", ["x1"]),
        ("repro predict x", ["x1"]),
    ],
)
def test_command_lines_are_completed(line, expected):
    known = {key: ["x1", "y2"] for key in ("show", "predict")}
    commands = ["predict", "report", "reproduce", "run", "show"]
    found = complete(line, commands, lambda command, typed: known.get(command, []))
    assert [one.removeprefix("hydra/launcher=") for one in found] == sorted(expected)

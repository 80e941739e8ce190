"""Commands print JSON with the keys that docs/scripting.md names; runs are listed and removed."""

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from repro.atomic import atomic_write_text
from repro.cli import main
from repro.results import RunFolder, find_run, list_runs
from repro.runs.cleanup import remove, run_rows
from repro.runs.job import is_finished
from repro.runs.locking import run_lock

PAGE = (Path(__file__).parents[2] / "docs" / "scripting.md").read_text(encoding="utf-8")
TINY = [
    "task=morphology", "task.setting=medium", "hardware=cpu", "model.embedding_size=4",
    "model.hidden_size=4", "model.layers=1", "training.max_steps=1", "decoding.max_length=3",
    "task.stored_examples=0",
]  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of two tiny runs of a sweep, with the same training."""
    root = tmp_path_factory.mktemp("scripting")
    main(["run", "-m", *TINY, "decoding.beam_size=1,2", f"results_dir={root}"])
    return root


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> Any:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == status
    return json.loads(capsys.readouterr().out)


def documented(command: str) -> set[str]:
    """Keys of the objects that a command prints, but for those in parentheses and after `;`."""
    (row,) = re.findall(rf"^\| `{re.escape(command)} --json` \| [^|]+ \| (.+) \|$", PAGE, re.M)
    return set(re.findall("`([^`]+)`", re.sub(r"\([^)]*\)", "", row.partition(";")[0])))


def test_keys_are_the_documented_ones(root, capsys):
    where = f"results_dir={root}"
    one, other = (folder.run_id for folder in list_runs(root, "demo"))
    commands = {
        "repro plan ARTEFACT": ["plan", "peters2019/figure5", where],
        "repro status SWEEP": ["status", where],
        "repro show": ["show", where],
        "repro show RUN": ["show", one, where],
        "repro compare RUN RUN": ["compare", one, other, where],
        "repro runs": ["runs", where],
        "repro data list": ["data", "list", f"data_dir={root}"],
    }
    for command, arguments in commands.items():
        found = printed(capsys, *arguments)
        assert {*(found[0] if isinstance(found, list) else found)} == documented(command), command
    named = printed(capsys, "data", "verify", "multi30k", f"data_dir={root}", status=1)
    assert {*named[0]} == documented("repro data verify")
    (value,) = {one["complete"] for one in named}
    assert value is False


def test_the_doctor_prints_findings(root, capsys):
    found = printed(capsys, "doctor", f"data_dir={root}", f"results_dir={root}")
    assert {*found[0]} == documented("repro doctor")
    assert {one["status"] for one in found} <= {"ok", "missing"}


def test_statuses_are_listed_in_one_table():
    assert re.findall(r"^\| (\d+) \|", PAGE, re.M) == ["0", "1", "2", "130", "141"]


def test_runs_are_removed_unless_something_needs_them(root, capsys, monkeypatch):
    where = f"results_dir={root}"
    one, other = list_runs(root, "demo")
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    # No filter, no answer, no value, no such setting.
    for refused in ([], ["scale=demo"], ["scale"], ["no.such=null", "--yes"]):
        assert main(["runs", "remove", *refused, where]) == 2
    with run_lock(one.path):
        assert main(["runs", "remove", "scale=demo", "--yes", where]) == 0
    assert "0 runs" in capsys.readouterr().out  # the other is part of a sweep in progress
    assert one.model.exists()
    assert other.model.exists()

    rows = run_rows(root, ["scale=demo"])
    with run_lock(one.path):  # begun since it was listed
        (kept,) = (row for row in rows if row["run_id"] == one.run_id)
        assert remove([kept], weights=False) == []
    assert remove([kept | {"state": "failed"}], weights=True) == []  # begun, and done by now
    assert one.damaged_files() == []
    assert one.status == "done"

    size = one.model.stat().st_size
    assert main(["runs", "remove", f"run_id={one.run_id}", "--weights", "--yes", where]) == 0
    assert f"1 run, {size / 2**20:.1f} MiB freed" in capsys.readouterr().out
    assert not one.model.exists()
    assert (one.status, one.damaged_files()) == ("done", [])
    assert is_finished(one)  # the same command does not repeat it

    assert main(["runs", "remove", "decoding.beam_size=2", "--yes", where]) == 0
    left = {folder.run_id for folder in list_runs(root, "demo")}
    assert len(left) == 1
    assert find_run(root, left.pop()).status == "done"
    records = [path.stem for path in (root / "demo" / "records").glob("*.json")]
    assert sorted(records) == sorted([one.run_id, other.run_id])


def test_a_comparison_is_written_as_a_page(root, tmp_path, capsys, monkeypatch):
    opened = list[str]()
    monkeypatch.setattr("webbrowser.open", opened.append)
    command = ["compare", "task=morphology", f"results_dir={root}"]
    assert main([*command, "--html", str(tmp_path)]) == 2
    page = tmp_path / "page.html"
    facts = printed(capsys, *command, "--html", str(page))
    text = page.read_text(encoding="utf-8")
    assert all(f'"id":"{run}"' in text for run in facts["runs"])
    assert opened == []
    capsys.readouterr()
    assert main([*command, "--open"]) == 0
    (address,) = opened
    path = capsys.readouterr().out.strip()
    assert address == f"file://{path}"
    assert Path(path).read_text(encoding="utf-8") == text


def test_settings_in_a_file_of_your_own(tmp_path):
    """The folder, the file and the command of the page."""
    (path, content), *_ = re.findall(r"`(mine/\S+)`\n\n```yaml\n(.*?)```", PAGE, re.DOTALL)
    atomic_write_text(tmp_path / path, content)
    (command,) = re.findall(r"^repro (run --config-dir .+)$", PAGE, re.M)
    words = command.replace("--config-dir mine", f"--config-dir {tmp_path / 'mine'}").split()
    assert main([*words, *TINY, f"results_dir={tmp_path}"]) == 0
    (folder,) = list_runs(tmp_path, "demo")
    settings = RunFolder(folder.path).read_record().settings
    assert (settings["mapping.alpha"], settings["training.max_epochs"]) == (1.75, 2)

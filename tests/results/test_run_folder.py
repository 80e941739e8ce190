import json
import math
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from repro.checksums import MANIFEST
from repro.results import Record, ResultsError, RunFolder, find_run, list_runs, publish, run_folder
from repro.results.files import read_object

Make = Callable[..., Record]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return run_folder(tmp_path, "demo", "0123456789ab")


def test_status_follows_the_life_of_a_run(folder):
    assert folder.status == "absent"
    folder.mark_running()
    assert folder.status == "running"
    folder.mark_failed("Traceback: it broke")
    assert folder.status == "failed"
    assert folder.traceback.read_text() == "Traceback: it broke"
    folder.mark_running()
    assert folder.status == "running"
    assert not folder.traceback.exists()
    folder.mark_failed("again")
    folder.mark_done({"test/accuracy": 94.0})
    assert folder.status == "done"
    assert not folder.failed.exists()
    assert not folder.traceback.exists()


@pytest.mark.parametrize("name", ["checkpoint.pt", "predictions"])
def test_what_is_in_the_place_of_files_is_named_before_training(folder, name):
    folder.mark_running()
    path = folder.path / name
    path.mkdir() if name == "checkpoint.pt" else path.touch()
    with pytest.raises(ResultsError, match=str(path)):
        folder.mark_running()
    path.rmdir() if path.is_dir() else path.unlink()
    path.symlink_to(path)
    with pytest.raises(ResultsError, match=str(path)):
        folder.mark_running()
    path.unlink()
    folder.mark_running()


def test_done_tells_the_run_and_the_time(folder):
    folder.mark_done({"test/accuracy": 94.0})
    done = json.loads(folder.done.read_text())
    assert done["run_id"] == "0123456789ab"
    assert done["summary"] == {"test/accuracy": 94.0}
    assert datetime.fromisoformat(done["finished"]).utcoffset() is not None


def test_a_finished_run_neither_restarts_nor_fails(folder):
    folder.mark_done({})
    with pytest.raises(ResultsError, match="the run is done"):
        folder.mark_running()
    with pytest.raises(ResultsError, match="the run is done"):
        folder.mark_failed("late")
    assert folder.status == "done"


def test_a_crash_while_finishing_leaves_the_run_unfinished(folder, monkeypatch):
    folder.mark_running()

    def crash(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(OSError, match="disk full"):
        folder.mark_done({})
    assert folder.status == "running"
    assert list(folder.path.iterdir()) == []


def test_the_record_round_trips(folder, make_record):
    folder.write_record(make_record())
    assert folder.read_record() == make_record()
    folder.record.unlink()
    with pytest.raises(ResultsError, match="no such file"):
        folder.read_record()


@pytest.mark.parametrize("torn", ['{"epoch": 3, "dev/lo', '{"epoch": 3}', '{"language": "\xe4'])
def test_history_drops_a_torn_last_line_and_goes_on(folder, torn):
    rows = [{"epoch": 1, "dev/loss": 0.5}, {"epoch": 2, "dev/loss": 0.25}]
    assert folder.read_history() == []
    for row in rows:
        folder.append_history(row)
    with folder.history.open("ab") as stream:
        stream.write(torn.encode()[:-1] if torn.endswith("\xe4") else torn.encode())
    assert folder.read_history() == rows
    folder.append_history({"epoch": 3, "dev/loss": 0.125})
    assert folder.read_history() == [*rows, {"epoch": 3, "dev/loss": 0.125}]


def test_history_damaged_in_the_middle_is_refused(folder):
    folder.append_history({"epoch": 1})
    with folder.history.open("ab") as stream:
        stream.write(b'{"epoch"\n')
    folder.append_history({"epoch": 3})
    with pytest.raises(ResultsError, match=r"history\.jsonl:2: not JSON"):
        folder.read_history()


def test_history_is_cut_back_to_the_checkpoint(folder):
    for epoch in range(1, 5):
        folder.append_history({"epoch": epoch})
    folder.rewrite_history([row for row in folder.read_history() if row["epoch"] <= 2])
    folder.append_history({"epoch": 3, "again": True})
    assert folder.read_history() == [{"epoch": 1}, {"epoch": 2}, {"epoch": 3, "again": True}]


def test_history_keeps_a_diverged_loss(folder):
    folder.append_history({"epoch": 1, "dev/loss": math.nan})
    assert math.isnan(folder.read_history()[0]["dev/loss"])


def test_other_files_round_trip(folder):
    assert folder.read_attention() == []
    assert folder.read_hypotheses() == []
    source = ["<lang:x>", "ß\u2028"]
    attention = [{"index": 0, "source": source, "output": ["a"], "weights": [[0.1, 0.9]]}]
    hypotheses = [{"index": 0, "finite": False, "hypotheses": []}]
    folder.write_attention(attention)
    folder.write_hypotheses(hypotheses)
    folder.write_config("seed: 1\n")
    folder.write_environment({"device": "cpu"})
    assert folder.read_attention() == attention
    assert folder.read_hypotheses() == hypotheses
    assert folder.config.read_text() == "seed: 1\n"
    assert folder.read_environment() == {"device": "cpu"}
    assert folder.predictions_file("test", "english").name == "test-english.tsv"


def test_a_damaged_environment_is_named(folder):
    folder.mark_running()
    with pytest.raises(ResultsError, match=r"environment\.json: no such file"):
        folder.read_environment()
    deep = "[" * 100_000
    for text, message in (("{", "not JSON"), ("[]", "expected an object"), (deep, "not JSON")):
        folder.environment.write_text(text)
        with pytest.raises(ResultsError, match=rf"environment\.json: {message}"):
            folder.read_environment()


def test_runs_are_listed_and_found_by_prefix(tmp_path):
    assert list_runs(tmp_path, "demo") == []
    for scale, name in [("demo", "aa11"), ("demo", "ab22"), ("full", "ab33"), ("demo", "ab222")]:
        run_folder(tmp_path, scale, name).mark_running()
    assert [folder.run_id for folder in list_runs(tmp_path, "demo")] == ["aa11", "ab22", "ab222"]
    assert find_run(tmp_path, "aa").path == tmp_path / "demo" / "runs" / "aa11"
    assert find_run(tmp_path, "ab3").path == tmp_path / "full" / "runs" / "ab33"
    assert find_run(tmp_path, "ab22").run_id == "ab22"


def test_an_ambiguous_or_unknown_prefix_is_refused(tmp_path):
    run_folder(tmp_path, "demo", "ab22").mark_running()
    run_folder(tmp_path, "full", "ab33").mark_running()
    with pytest.raises(ResultsError, match=r"2 runs below .* begin with 'ab': .*demo/ab22"):
        find_run(tmp_path, "ab")
    with pytest.raises(ResultsError, match=r"no run below .* begins with 'x'"):
        find_run(tmp_path, "x")


def test_a_run_without_a_folder_is_found_by_its_record(tmp_path, make_record):
    run_folder(tmp_path, "demo", "aa11").mark_running()
    for name in ("aa22", "ab33", "ab44"):
        publish(tmp_path, make_record(run_id=name))
    assert isinstance(find_run(tmp_path, "aa"), RunFolder)
    assert find_run(tmp_path, "ab3").config == make_record().config
    with pytest.raises(ResultsError, match=r"2 runs below .* begin with 'ab': demo/ab33, demo/ab"):
        find_run(tmp_path, "ab")


@pytest.mark.parametrize(
    ("name", "harm", "reused"),
    [
        ("SHA256SUMS", lambda content: content, True),
        ("SHA256SUMS", lambda content: content[:-4], True),
        ("SHA256SUMS", lambda content: content + b"\n", True),
        ("SHA256SUMS", lambda content: content[: content.index(b"\n") + 1], False),
        ("SHA256SUMS", lambda content: b"", False),
        ("DONE", lambda content: content[:-4], True),
        ("model.safetensors", lambda content: content + b"1", False),
    ],
    ids=["whole", "torn", "longer", "cut between lines", "emptied", "torn end", "weights"],
)
def test_weights_are_reused_only_if_the_manifest_has_their_checksums(folder, name, harm, reused):
    folder.mark_running()
    training = (folder.training, folder.history, folder.model)
    for path in (*training, folder.statistics):
        path.write_text(path.name)
    folder.mark_done({})
    folder.statistics.write_bytes(b"2")
    path = folder.path / name
    path.write_bytes(harm(path.read_bytes()))
    folder.reopen_if_damaged()
    assert folder.status == "running"
    assert [path.exists() for path in training] == [reused] * 3


def test_a_run_is_whole_without_the_weights_that_were_removed(folder):
    folder.mark_running()
    for path in (folder.model, folder.checkpoint, folder.history):
        path.write_bytes(b"1")
    folder.mark_done({"kept": 1})
    assert folder.remove_weights() == 2
    assert folder.damaged_files() == []
    assert read_object(folder.done)["summary"] == {"kept": 1}


def test_the_removal_of_weights_hides_no_damage(folder):
    folder.path.mkdir(parents=True)
    folder.write_training({})
    folder.model.write_bytes(b"..")
    folder.mark_done({})
    with (folder.path / MANIFEST).open("a") as stream:
        stream.write("0" * 64 + "  more\n")
    assert folder.remove_weights() == 2
    assert folder.damaged_files() == [MANIFEST]

"""Damaged files of runs: every one is noticed and named, the run is repeated, others go on."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from executed import executed
from stored_statistics import untimed

from repro.checksums import DamagedFileError
from repro.cli import main
from repro.config.compose import compose_run
from repro.results import (
    ResultsError,
    RunFolder,
    read_record,
    read_records,
    read_statistics,
    record_path,
)
from repro.results.files import read_arrays, write_arrays
from repro.results.layout import statistics_path
from repro.runs.execute import execute, monitored
from repro.runs.job import locate
from repro.runs.show import describe

Damage = Callable[[Path], None]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def lose(path: Path) -> None:
    path.unlink()


def contents(folder: RunFolder) -> list[str]:
    """Every file of a finished run that has a content."""
    found = (path for path in folder.path.rglob("*") if path.is_file() and path.stat().st_size)
    return [path.relative_to(folder.path).as_posix() for path in found]


@pytest.mark.parametrize("damage", [flip, cut, lose])
def test_damage_of_any_file_of_a_finished_run_is_noticed(copied, damage):
    names = contents(copied)
    kept = {"config.yaml", "record.json", "history.jsonl", "model.safetensors", "training.json"}
    assert kept | {"DONE", "SHA256SUMS", "statistics.npz", "attention.jsonl"} <= set(names)
    assert copied.damaged_files() == []
    for name in names:
        path = copied.path / name
        if name in ("DONE", "lock"):
            continue  # a run without DONE is not done
        whole = path.read_bytes()
        damage(path)
        assert copied.damaged_files(), name
        if name != "SHA256SUMS":
            assert copied.damaged_files() == [name]
        path.write_bytes(whole)
    assert copied.damaged_files() == []


def test_what_a_report_reads_of_a_run_is_verified(copied):
    readers = {
        copied.record: copied.read_record,
        copied.history: copied.read_history,
        copied.attention: copied.read_attention,
        copied.statistics: copied.read_statistics,
        copied.forced: copied.read_forced,
        copied.hypotheses: copied.read_hypotheses,
        copied.candidates: copied.read_candidates,
        copied.environment: copied.read_environment,
        copied.training: copied.read_training,
    }
    there = [path for path in readers if path.exists()]
    assert len(there) >= 7
    for path in there:
        readers[path]()
        whole = path.read_bytes()
        flip(path)
        with pytest.raises(DamagedFileError, match=path.name):
            readers[path]()
        path.write_bytes(whole)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("record.json", flip), ("attention.jsonl", flip), ("model.safetensors", flip),
        ("training.json", flip), ("SHA256SUMS", lose),
    ],
)  # fmt: skip
def test_a_damaged_run_is_named_and_repeated(copied, summarizer, caplog, name, damage):
    before = untimed(copied.read_record())
    damage(copied.path / name)
    outcome = execute(locate(compose_run(summarizer)))
    assert (outcome.status, outcome.run_id) == ("done", copied.run_id), outcome.error
    assert any(str(copied.path) in message and name in message for message in caplog.messages)
    assert untimed(copied.read_record()) == before
    assert copied.damaged_files() == []
    assert execute(locate(compose_run(summarizer))).status == "skipped"


@pytest.mark.parametrize(
    ("name", "damage"),
    [("training.json", flip), ("model.safetensors", cut), ("history.jsonl", flip)],
)
def test_damage_of_a_run_does_not_block_those_that_share_its_training(
    copied, summarizer, caplog, name, damage
):
    damage(copied.path / name)
    other = executed(compose_run([*summarizer, "decoding.beam_size=1"]))
    assert any(f"{copied.path / name} is damaged" in message for message in caplog.messages)
    assert other.damaged_files() == []


def test_a_torn_training_without_a_checksum_does_not_block_either(copied, summarizer, caplog):
    (copied.path / "SHA256SUMS").unlink()  # as an earlier version left a run
    copied.done.write_text(json.dumps({"run_id": copied.run_id}))
    cut(copied.training)
    executed(compose_run([*summarizer, "decoding.beam_size=1"]))
    assert any(str(copied.training) in message for message in caplog.messages)


@pytest.mark.parametrize("progress", [{"page": 1}, {"epoch": "two"}, [1], None])
def test_what_is_no_progress_of_a_training_is_named(copied, progress):
    copied.done.unlink()
    copied.write_training({**copied.read_training(), "progress": progress})
    with pytest.raises(ResultsError, match=str(copied.training)):
        monitored(copied)


@pytest.mark.parametrize("progress", [{"page": 1}, {"epoch": "two"}])
def test_another_training_is_passed_over_and_replaced_by_the_run_itself(
    copied, summarizer, caplog, progress
):
    copied.done.unlink()
    copied.write_training({**copied.read_training(), "progress": progress})
    executed(compose_run(summarizer))
    (warning,) = (message for message in caplog.messages if str(copied.training) in message)
    assert "not the progress of a training" in warning
    executed(compose_run([*summarizer, "decoding.beam_size=1"]))
    assert caplog.messages.count(warning) == 1


@pytest.mark.parametrize("damage", [flip, cut, lose])
def test_the_published_record_is_written_again_where_it_is_missing_or_damaged(
    copied, summarizer, damage
):
    results = copied.path.parents[2]
    published = record_path(results, "demo", copied.run_id)
    kept = published.read_bytes()
    damage(published)
    assert execute(locate(compose_run(summarizer))).status == "skipped"
    assert published.read_bytes() == kept
    damage(published)
    assert main(["runs", "remove", "state=done", f"results_dir={results}", "--yes"]) == 0
    assert (published.read_bytes(), copied.path.exists()) == (kept, False)


def test_a_run_is_removed_only_if_its_record_is_kept(copied, capsys):
    results = copied.path.parents[2]
    published = record_path(results, "demo", copied.run_id)
    published.unlink()
    statistics_path(results, "demo", copied.run_id).unlink()
    flip(copied.record)
    command = ["runs", "remove", "state=done", f"results_dir={results}", "--yes"]
    assert main(command) == 0
    assert copied.path.exists()
    assert f"{copied.run_id} kept" in capsys.readouterr().err
    flip(copied.record)
    flip(copied.statistics)
    whole = copied.read_record()
    assert main(command) == 0
    assert not copied.path.exists()
    assert read_record(published) == whole
    assert read_statistics(*copied.place) == {}


def test_of_two_copies_the_one_that_finished_last_counts_with_its_statistics(copied, summarizer):
    results, own = copied.path.parents[2], copied.read_record()
    published, kept = record_path(*copied.place), statistics_path(*copied.place)
    (name, rows), *_ = copied.read_statistics().items()
    other = {name: rows + 1}
    for finished, newer in (("2020", False), ("2036", True)):  # of another machine
        theirs = replace(own, commit="other", finished=finished)
        published.write_text(theirs.to_json() + "\n")
        write_arrays(kept, other)
        assert read_records(results, "demo") == [theirs if newer else own]
        shown = describe(results, copied.run_id)
        assert (shown["environment"]["commit"] == "other") == newer
        np.testing.assert_array_equal(read_statistics(*copied.place)[name], rows + newer)
        assert execute(locate(compose_run(summarizer))).status == "skipped"
        assert read_record(published) == (theirs if newer else own)
        np.testing.assert_array_equal(read_arrays(kept)[name], rows + newer)
    copied.done.unlink()  # its new statistics belong to no record yet
    np.testing.assert_array_equal(read_statistics(*copied.place)[name], rows + 1)


def test_statistics_of_either_of_two_equal_copies_serve(copied):
    (name, rows), *_ = copied.read_statistics().items()
    for path in (statistics_path(*copied.place), copied.statistics):
        whole = path.read_bytes()
        cut(path)
        np.testing.assert_array_equal(read_statistics(*copied.place)[name], rows)
        path.write_bytes(whole)
    cut(statistics_path(*copied.place))
    copied.done.unlink()
    with pytest.raises(ResultsError, match=r"statistics"):
        read_statistics(*copied.place)


def test_the_folder_of_another_run_is_not_done(copied, summarizer, caplog):
    """Neither its numbers nor its weights pass as those of the run whose place it takes."""
    settings = compose_run([*summarizer, "seed=2"])
    other = locate(settings)
    before = read_record(record_path(*copied.place))
    shutil.copytree(copied.path, other.folder.path)
    assert read_records(copied.path.parents[2], "demo") == [before]
    assert read_statistics(*other.folder.place) == {}
    command = ["runs", "remove", f"run_id={other.run_id}", "--yes"]
    assert main([*command, f"results_dir={copied.path.parents[2]}"]) == 0
    assert other.folder.path.exists()
    assert execute(other).status == "done"
    assert str(other.folder.path) in caplog.text
    record = other.folder.read_record()
    assert (record.run_id, record.seed) == (other.run_id, 2)
    assert other.folder.damaged_files() == []
    weights = [one.model.read_bytes() for one in (copied, other.folder)]
    assert weights[0] != weights[1]
    assert read_record(record_path(*copied.place)) == before


def test_a_run_with_a_damaged_record_can_be_removed(copied):
    flip(copied.record)
    results = copied.path.parents[2]
    assert main(["runs", "remove", "state=done", f"results_dir={results}", "--yes"]) == 0
    assert not copied.path.exists()


def test_a_kill_before_the_mark_of_a_finished_run_loses_no_record(tiny, monkeypatch):
    class Killed(BaseException):
        """End of the process."""

    def killed(*_: object) -> None:
        raise Killed

    run = locate(compose_run(tiny))
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "mark_done", killed)
        with pytest.raises(Killed):
            execute(run)
    published = record_path(run.config.results_path, "demo", run.run_id)
    assert untimed(read_record(published)) == untimed(executed(run.config).read_record())

"""Damaged files of runs: every one is noticed and named, the run is repeated, others go on."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from repro.checksums import DamagedFileError
from repro.config.compose import compose_run
from repro.results import ResultsError, RunFolder
from repro.runs.execute import execute, monitored
from repro.runs.job import Outcome, locate

Damage = Callable[[Path], None]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def lose(path: Path) -> None:
    path.unlink()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Path, Outcome]:
    """Overrides, results folder and outcome of a finished run."""
    results = tmp_path_factory.mktemp("results")
    overrides = [
        "task=summarization", "hardware=cpu", "hardware.threads=1", "task.stored_examples=2",
        "mapping=softmax", "model.embedding_size=8", "model.hidden_size=8",
        "training.max_epochs=1", "training.batch_size=256", "decoding.max_length=6",
        "decoding.beam_size=2",
    ]  # fmt: skip
    outcome = execute(locate(compose_run([*overrides, f"results_dir={results}"])))
    assert outcome.status == "done", outcome.error
    return overrides, results, outcome


@pytest.fixture
def copied(
    finished: tuple[list[str], Path, Outcome], tmp_path: Path
) -> tuple[list[str], RunFolder]:
    """Overrides that find a copy of the finished run, and that copy."""
    overrides, results, outcome = finished
    shutil.copytree(results, tmp_path / "results")
    folder = tmp_path / "results" / outcome.folder.relative_to(results)
    return [*overrides, f"results_dir={tmp_path / 'results'}"], RunFolder(folder)


def contents(folder: RunFolder) -> list[str]:
    """Every file of a finished run that has a content."""
    found = (path for path in folder.path.rglob("*") if path.is_file() and path.stat().st_size)
    return [path.relative_to(folder.path).as_posix() for path in found]


@pytest.mark.parametrize("damage", [flip, cut, lose])
def test_damage_of_any_file_of_a_finished_run_is_noticed(
    copied: tuple[list[str], RunFolder], damage: Damage
) -> None:
    _, folder = copied
    names = contents(folder)
    kept = {"config.yaml", "record.json", "history.jsonl", "model.safetensors", "training.json"}
    assert kept | {"DONE", "SHA256SUMS", "statistics.npz", "attention.jsonl"} <= set(names)
    assert folder.damaged_files() == []
    for name in names:
        path = folder.path / name
        if name in ("DONE", "lock") or (damage is lose and name == "SHA256SUMS"):
            continue  # a run without DONE is not done, one without checksums unverified
        whole = path.read_bytes()
        damage(path)
        assert folder.damaged_files(), name
        if name != "SHA256SUMS":
            assert folder.damaged_files() == [name]
        path.write_bytes(whole)
    assert folder.damaged_files() == []


def test_what_a_report_reads_of_a_run_is_verified(copied: tuple[list[str], RunFolder]) -> None:
    _, folder = copied
    readers = {
        folder.record: folder.read_record,
        folder.history: folder.read_history,
        folder.attention: folder.read_attention,
        folder.statistics: folder.read_statistics,
        folder.forced: folder.read_forced,
        folder.hypotheses: folder.read_hypotheses,
        folder.candidates: folder.read_candidates,
        folder.environment: folder.read_environment,
        folder.training: folder.read_training,
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
    "name", ["record.json", "attention.jsonl", "model.safetensors", "training.json"]
)
def test_a_damaged_run_is_named_and_repeated(
    copied: tuple[list[str], RunFolder], caplog: pytest.LogCaptureFixture, name: str
) -> None:
    overrides, folder = copied
    before = dict(folder.read_record().metrics)
    flip(folder.path / name)
    outcome = execute(locate(compose_run(overrides)))
    assert (outcome.status, outcome.run_id) == ("done", folder.run_id), outcome.error
    assert any(str(folder.path) in message and name in message for message in caplog.messages)
    timed = {"train/tokens_per_second", "train/epoch_minutes"}
    after = dict(folder.read_record().metrics)
    assert {k: v for k, v in after.items() if k not in timed} == {
        k: v for k, v in before.items() if k not in timed
    }
    assert folder.damaged_files() == []
    assert execute(locate(compose_run(overrides))).status == "skipped"


@pytest.mark.parametrize("damage", [flip, cut])
@pytest.mark.parametrize("name", ["training.json", "model.safetensors", "history.jsonl"])
def test_damage_of_a_run_does_not_block_those_that_share_its_training(
    copied: tuple[list[str], RunFolder],
    caplog: pytest.LogCaptureFixture,
    name: str,
    damage: Damage,
) -> None:
    overrides, folder = copied
    damage(folder.path / name)
    other = execute(locate(compose_run([*overrides, "decoding.beam_size=1"])))
    assert other.status == "done", other.error
    assert any(f"{folder.path / name} is damaged" in message for message in caplog.messages)
    assert RunFolder(other.folder).damaged_files() == []


def test_a_torn_training_without_a_checksum_does_not_block_either(
    copied: tuple[list[str], RunFolder], caplog: pytest.LogCaptureFixture
) -> None:
    overrides, folder = copied
    (folder.path / "SHA256SUMS").unlink()
    cut(folder.training)
    other = execute(locate(compose_run([*overrides, "decoding.beam_size=1"])))
    assert other.status == "done", other.error
    assert any(str(folder.training) in message for message in caplog.messages)


@pytest.mark.parametrize("progress", [{"page": 1}, {"epoch": "two"}, [1], None])
def test_another_training_is_passed_over_and_replaced_by_the_run_itself(
    copied: tuple[list[str], RunFolder], caplog: pytest.LogCaptureFixture, progress: object
) -> None:
    overrides, folder = copied
    folder.done.unlink()
    folder.write_training({**folder.read_training(), "progress": progress})
    with pytest.raises(ResultsError, match=str(folder.training)):
        monitored(folder)
    outcome = execute(locate(compose_run(overrides)))
    assert outcome.status == "done", outcome.error
    (warning,) = (message for message in caplog.messages if str(folder.training) in message)
    assert "not the progress of a training" in warning
    assert execute(locate(compose_run([*overrides, "decoding.beam_size=1"]))).status == "done"
    assert caplog.messages.count(warning) == 1

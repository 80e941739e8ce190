"""One run on two processes: the numbers of one, also after a kill; nothing written twice."""

import math
import subprocess
import sys
import time
from pathlib import Path
from socket import socket

import forked
import pytest
from executed import executed
from stored_statistics import untimed

from repro.config.compose import compose_run
from repro.results import RunFolder, list_runs
from repro.runs.locking import is_claimed

MORPHOLOGY = [
    "hardware=cpu", "hardware.threads=1", "task.setting=medium", "task.stored_examples=1",
    "model.embedding_size=6", "model.hidden_size=6", "model.layers=1", "decoding.max_length=4",
    "decoding.max_hypotheses=5", "training.validate_every=1", "training.batch_size=31",
    "model.dropout=0", "training.max_epochs=5",
]  # fmt: skip
PARSING = [
    "task=parsing", "hardware=cpu", "hardware.threads=1", "model.word_size=4", "model.tag_size=3",
    "model.lstm_size=4", "model.layers=1", "model.arc_size=4", "training.batch_size=31",
    "model.word_dropout=0", "training.max_epochs=1", "task.stored_examples=5", "task.compared=5",
    "task.candidate_iterations=5",
]  # fmt: skip
PAIRS = [
    "task=snli", "hardware=cpu", "hardware.threads=1", "model.vector_size=4",
    "model.hidden_size=4", "data.train_premises=30", "task.stored_examples=1",
    "training.batch_size=31", "model.dropout=0", "training.max_epochs=2",
]  # fmt: skip


def start(results: Path, *settings: str) -> list[forked.Command]:
    """Start the processes of a run with the variables that ``torchrun`` sets for them."""
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    command = ["run", *settings, f"results_dir={results}"]
    return [
        forked.start(*command, environment={**shared, "RANK": number, "LOCAL_RANK": number})
        for number in "01"
    ]


def finished(results: Path, *settings: str) -> RunFolder:
    ended = [command.finish() for command in start(results, *settings)]
    assert [one.returncode for one in ended] == [0, 0], ended
    return only_run(results)


def under_torchrun(results: Path, *settings: str) -> RunFolder:
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [sys.executable, *torchrun, "-m", "repro", "run", *settings, f"results_dir={results}"]
    ended = subprocess.run(command, text=True, capture_output=True, timeout=200)
    assert ended.returncode == 0, ended.stderr
    return only_run(results)


def killed_and_continued(results: Path, *settings: str) -> RunFolder:
    killed = start(results, *settings)
    deadline = time.monotonic() + 100
    while not list(results.glob("demo/runs/*/checkpoint.pt")):
        assert all(command.process.is_alive() for command in killed)
        assert time.monotonic() < deadline
        time.sleep(0.02)
    for command in killed:
        command.process.kill()
    for command in killed:
        command.finish(timeout=20)
    (folder,) = list_runs(results, "demo")
    assert folder.status == "running"
    return finished(results, *settings)


def only_run(results: Path) -> RunFolder:
    (folder,) = list_runs(results, "demo")
    assert folder.status == "done"
    assert not is_claimed(folder.path)
    return folder


@pytest.mark.parametrize(
    ("both", "settings"),
    [(killed_and_continued, MORPHOLOGY), (finished, PARSING), (under_torchrun, PAIRS)],
    ids=["morphology", "parsing", "snli"],
)
def test_two_processes_compute_the_numbers_of_one(both, settings, tmp_path):
    one = executed(compose_run([*settings, f"results_dir={tmp_path / 'one'}"]))
    two = both(tmp_path / "two", *settings)
    assert one.run_id == two.run_id
    for left, right in zip(one.read_history(), two.read_history(), strict=True):
        assert left["step"] == right["step"]
        assert math.isclose(left["train_loss"], right["train_loss"], rel_tol=1e-5)
        assert math.isclose(left["dev_loss"], right["dev_loss"], rel_tol=1e-5)
    records = one.read_record(), two.read_record()
    assert records[0].metrics.keys() == records[1].metrics.keys()
    left, right = map(untimed, records)
    assert "processes: 2" in two.read_environment()["device"]
    for name in left:
        # A tree whose weight is next to zero enters the active set, or not, by the last bits; the
        # deviation of scores that are nearly equal loses digits to cancellation.
        loose = {"dev/trees": 0.01, "train/trees_ratio": 0.01, "dev/attention_spread": 1e-4}
        assert math.isclose(left[name], right[name], rel_tol=loose.get(name, 1e-6)), name


def test_one_of_the_processes_prints_the_plan(tmp_path):
    ended = [command.finish() for command in start(tmp_path, "--dry-run", *MORPHOLOGY)]
    assert [one.returncode for one in ended] == [0, 0], ended
    first, second = (one.stdout for one in ended)
    assert "queued" in first
    assert not second
    assert not list_runs(tmp_path, "demo")

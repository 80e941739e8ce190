"""A private MPS daemon around the runs that share a card, by a fake of its control program."""

import errno
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from repro.runs import local, mps
from repro.runs.mps import shared_card

PIPE, VISIBLE = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_VISIBLE_DEVICES"


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A control program on the path; returns the log of its calls, and fails where told to."""
    monkeypatch.delenv(PIPE, raising=False)
    log, program = tmp_path / "calls", tmp_path / "nvidia-cuda-mps-control"
    call = f'echo "$1 $(cat) $CUDA_MPS_PIPE_DIRECTORY" >> {log}'
    seen = f'echo "$CUDA_VISIBLE_DEVICES" >> {tmp_path}/visible'
    program.write_text(f"#!/bin/sh\n{call}\n{seen}\ntest ! -e {tmp_path}/broken\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(mps, "_PROBE", "")
    return log


def test_a_daemon_lives_as_long_as_the_block(control):
    with suppress(KeyboardInterrupt), shared_card():
        folder = Path(os.environ[PIPE])
        assert folder.is_dir()
        raise KeyboardInterrupt
    assert [line.split() for line in control.read_text().splitlines()] == [
        ["-d", str(folder)], ["quit", str(folder)],
    ]  # fmt: skip
    assert PIPE not in os.environ
    assert not folder.exists()


def test_a_daemon_that_ends_late_does_not_end_the_runs(control, monkeypatch):
    """It may write to its folder after it has answered."""
    removed: list[Any] = []

    def refused(path: Any, **_: Any) -> None:
        removed.append(path)
        raise OSError(errno.ENOTEMPTY, "Directory not empty", str(path))

    monkeypatch.setattr(tempfile, "tempdir", str(control.parent))
    monkeypatch.setattr(os, "rmdir", refused)
    with shared_card():
        assert not removed
    assert len(removed) == 1


@pytest.mark.parametrize("cards", ["2", None])
def test_only_the_daemon_chooses_among_the_cards(cards, control, monkeypatch):
    """It numbers those that it sees from 0."""
    monkeypatch.delenv(VISIBLE, raising=False)
    if cards is not None:
        monkeypatch.setenv(VISIBLE, cards)
    with shared_card():
        assert VISIBLE not in os.environ
    assert os.environ.get(VISIBLE) == cards
    assert (control.parent / "visible").read_text().split() == ([cards] * 2 if cards else [])


@pytest.mark.parametrize("broken", [True, False])
def test_without_a_daemon_runs_go_on(broken, control, monkeypatch, caplog):
    if broken:
        (control.parent / "broken").touch()
    else:
        monkeypatch.setenv("PATH", str(control.parent / "nowhere"))
    with shared_card():
        assert PIPE not in os.environ
    assert len(caplog.messages) == 1


def test_a_daemon_whose_server_finds_no_card_is_ended(control, monkeypatch, caplog):
    """Else no run would find the card, and those with hardware=auto would take the processor."""
    monkeypatch.setattr(mps, "_PROBE", f"import os; exit(int('{PIPE}' in os.environ))")
    monkeypatch.setenv(VISIBLE, "1")
    with shared_card():
        assert PIPE not in os.environ
        assert os.environ[VISIBLE] == "1"
    assert [line.split()[0] for line in control.read_text().splitlines()] == ["-d", "quit"]
    assert len(caplog.messages) == 1


def test_an_interrupt_before_the_block_ends_the_daemon(control, monkeypatch):
    call = mps._call

    def interrupted(command: list[str], *given: Any) -> str | None:
        if "-c" in command:
            raise KeyboardInterrupt
        return call(command, *given)

    monkeypatch.setattr(mps, "_call", interrupted)
    monkeypatch.setenv(VISIBLE, "1")
    with pytest.raises(KeyboardInterrupt), shared_card():
        pass
    assert [line.split()[0] for line in control.read_text().splitlines()] == ["-d", "quit"]
    assert os.environ[VISIBLE] == "1"


def test_a_daemon_of_the_machine_is_left_alone(control, monkeypatch):
    monkeypatch.setenv(PIPE, "/run/mps")
    with shared_card():
        assert os.environ[PIPE] == "/run/mps"
    assert os.environ[PIPE] == "/run/mps"
    assert not control.exists()


@pytest.mark.parametrize(
    ("device", "wanted", "calls"), [("cuda", 2, 2), ("cuda", 0, 2), ("cuda", 1, 0), ("cpu", 2, 0)]
)
def test_several_runs_on_a_card_share_it(device, wanted, calls, control, monkeypatch):
    monkeypatch.setattr(local, "choose_device", lambda _config: torch.device(device))
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(mps, "_FREE", "print(2**34)")
    hardware = SimpleNamespace(parallel_runs=wanted)
    config = SimpleNamespace(hardware=hardware, model=SimpleNamespace(hidden_size=8))
    jobs: list[Any] = [SimpleNamespace(config=config)] * 2
    batch = SimpleNamespace(
        jobs=jobs, settings={"parallel_runs": None}, by_training=list, display=None
    )
    local.run_locally(batch)  # type: ignore[arg-type]
    assert len(control.read_text().splitlines() if control.exists() else []) == calls


@pytest.mark.parametrize(
    ("answer", "size", "expected"),
    [
        ("print(80 * 2**30)", 500, 12),
        ("print(5 * 2**30)", 500, 4),  # the models take a little as well
        ("print(80 * 2**30)", 2**14, 6),  # 12 GiB each
        ("print(1000)", 500, 1),
        ("raise SystemExit('no card')", 500, 12),
    ],
)
def test_as_many_runs_share_a_card_as_its_memory_holds(answer, size, expected, monkeypatch):
    monkeypatch.setattr(mps, "_FREE", answer)
    monkeypatch.setattr(local, "choose_device", lambda _config: torch.device("cuda"))
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    model = SimpleNamespace(hidden_size=size)
    config = SimpleNamespace(hardware=SimpleNamespace(parallel_runs=0), model=model)
    jobs = [SimpleNamespace(config=config)] * 20
    batch: Any = SimpleNamespace(jobs=jobs, settings={"parallel_runs": None})
    assert local.parallel_runs(batch) == expected
    batch.settings["parallel_runs"] = 16
    assert local.parallel_runs(batch) == 16


@pytest.mark.parametrize(("gibibytes", "expected"), [(64, 8), (3, 5)])
def test_as_many_runs_share_a_processor_as_memory_holds(gibibytes, expected, monkeypatch):
    monkeypatch.setattr(local, "physical_bytes", lambda: gibibytes * 2**30)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    model, hardware = SimpleNamespace(lstm_size=100), SimpleNamespace(device="cpu", parallel_runs=0)
    jobs = [SimpleNamespace(config=SimpleNamespace(hardware=hardware, model=model))] * 20
    batch: Any = SimpleNamespace(jobs=jobs, settings={"parallel_runs": None})
    assert local.parallel_runs(batch) == expected

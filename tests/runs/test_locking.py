import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from repro.runs import locking
from repro.runs.locking import RunBusyError, RunLostError, run_lock

HOLD = """
import sys, time, pathlib
from repro.runs.locking import run_lock
with run_lock(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def start_holder(folder: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", HOLD, str(folder)]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def claims(folder: Path) -> list[Path]:
    return sorted(folder.glob("claim-*"))


def foreign_claim(folder: Path, silence: float) -> Path:
    """Write a claim of a process of another machine, whose number is in use here too."""
    path = folder / "claim-00000000000000000001-00000000.json"
    holder = {"host": "elsewhere", "system": "00000000", "pid": os.getpid()}
    path.write_text(json.dumps({**holder, "process_start": 1, "since": "2026-01-01"}))
    os.utime(path, (time.time() - silence,) * 2)
    return path


def test_a_living_process_keeps_its_run_and_a_killed_one_loses_it_at_once(tmp_path: Path) -> None:
    holder = start_holder(tmp_path)
    with pytest.raises(RunBusyError) as busy, run_lock(tmp_path):
        pass
    assert busy.value.holder.pid == holder.pid
    assert busy.value.holder.host == os.uname().nodename
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate(timeout=10)
    with run_lock(tmp_path):
        assert [json.loads(path.read_text())["pid"] for path in claims(tmp_path)] == [os.getpid()]
    assert not claims(tmp_path)


def test_a_process_waits_for_the_run_if_it_wants_to(tmp_path: Path) -> None:
    holder = start_holder(tmp_path)
    told: list[int] = []
    threading.Timer(0.5, holder.terminate).start()
    with run_lock(tmp_path, lambda busy: told.append(busy.holder.pid)):
        assert told == [holder.pid]
        assert holder.wait(10) is not None
    holder.communicate()


def test_a_later_process_of_the_same_number_is_not_the_holder(tmp_path: Path) -> None:
    with run_lock(tmp_path):
        (claim,) = claims(tmp_path)
        content = json.loads(claim.read_text())
    claim.write_text(json.dumps({**content, "process_start": content["process_start"] + 1}))
    with run_lock(tmp_path):
        assert not claim.exists()


def test_the_heartbeat_decides_for_processes_of_other_machines(tmp_path: Path) -> None:
    claim = foreign_claim(tmp_path, silence=locking.STALE_SECONDS / 2)
    with pytest.raises(RunBusyError, match=f"elsewhere, pid {os.getpid()} is working"):
        run_lock(tmp_path).__enter__()
    foreign_claim(tmp_path, silence=locking.STALE_SECONDS + 1)
    with run_lock(tmp_path):
        assert not claim.exists()


def test_a_claim_that_a_crash_of_the_machine_tore_expires_too(tmp_path: Path) -> None:
    claim = foreign_claim(tmp_path, silence=0)
    claim.write_text("")
    with pytest.raises(RunBusyError):
        run_lock(tmp_path).__enter__()
    os.utime(claim, (time.time() - locking.STALE_SECONDS - 1,) * 2)
    with run_lock(tmp_path):
        assert not claim.exists()


def test_the_heartbeat_goes_on_and_notices_the_loss_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locking, "HEARTBEAT_SECONDS", 0.05)
    with run_lock(tmp_path) as lock:
        (claim,) = claims(tmp_path)
        os.utime(claim, (0, 0))
        time.sleep(0.3)
        assert claim.stat().st_mtime > 0
        lock.check()
        claim.unlink()  # as a process does that takes this one for dead
        with pytest.raises(RunLostError):
            lock.check()
        time.sleep(0.3)
        assert lock.lost


def test_of_two_holders_the_younger_gives_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locking, "HEARTBEAT_SECONDS", 0.05)
    with run_lock(tmp_path) as lock:
        foreign_claim(tmp_path, silence=0)  # a listing that came from a cache did not show it
        deadline = time.monotonic() + 10
        while not lock.lost and time.monotonic() < deadline:
            time.sleep(0.02)
        with pytest.raises(RunLostError):
            lock.check()


ENTER = """
import os, pathlib, random, sys, time
from repro.runs.locking import RunBusyError, run_lock
folder, start = pathlib.Path(sys.argv[1]), float(sys.argv[2])
time.sleep(max(0, start - time.time()))
entered = 0
while entered < 5:
    try:
        with run_lock(folder):
            os.close(os.open(folder / "inside", os.O_CREAT | os.O_EXCL))
            time.sleep(0.002)
            os.unlink(folder / "inside")
            entered += 1
    except RunBusyError:
        time.sleep(random.uniform(0, 0.01))  # four in step would keep each other out
"""


def test_never_are_two_processes_inside(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ENTER, str(tmp_path), str(time.time() + 1)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    rivals = [subprocess.Popen(command, text=True, **pipes) for _ in range(4)]
    errors = [rival.communicate(timeout=60)[1] for rival in rivals]
    assert errors == [""] * 4
    assert [rival.returncode for rival in rivals] == [0] * 4
    assert not claims(tmp_path)

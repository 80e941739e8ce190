import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from repro.runs.locking import RunBusyError, is_claimed, remove_locked, run_lock

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
    assert holder.stdout.readline() == "held\n"
    return holder


def test_a_living_process_keeps_its_run_and_a_killed_one_loses_it_at_once(tmp_path):
    holder = start_holder(tmp_path)
    assert is_claimed(tmp_path)
    with pytest.raises(RunBusyError) as busy, run_lock(tmp_path):
        pass
    assert f"process {holder.pid} on {os.uname().nodename}" in str(busy.value)
    assert "+00:00" not in str(busy.value)
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate(timeout=10)
    assert not is_claimed(tmp_path)
    with run_lock(tmp_path):
        assert is_claimed(tmp_path)
    assert not is_claimed(tmp_path)


def test_a_process_waits_for_the_run_if_it_wants_to(tmp_path):
    holder = start_holder(tmp_path)
    told: list[RunBusyError] = []
    threading.Timer(0.7, holder.terminate).start()
    with run_lock(tmp_path, told.append):
        assert holder.wait(10) is not None
    (busy,) = told
    assert str(holder.pid) in str(busy)
    holder.communicate()


def test_a_lock_that_is_looked_at_is_free(tmp_path):
    assert not is_claimed(tmp_path / "absent")
    with run_lock(tmp_path):
        pass
    with (tmp_path / "lock").open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_SH)  # as `is_claimed` does for a moment
        threading.Timer(0.2, stream.close).start()
        assert not is_claimed(tmp_path)
        with run_lock(tmp_path):
            pass


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


def test_never_are_two_processes_inside(tmp_path):
    command = [sys.executable, "-c", ENTER, str(tmp_path), str(time.time() + 1)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    rivals = [subprocess.Popen(command, text=True, **pipes) for _ in range(4)]
    errors = [rival.communicate(timeout=60)[1] for rival in rivals]
    assert errors == [""] * 4
    assert [rival.returncode for rival in rivals] == [0] * 4
    assert not is_claimed(tmp_path)


def test_who_waits_for_a_run_that_is_removed_begins_it_anew(tmp_path):
    folder = tmp_path / "run"
    with run_lock(folder):
        (folder / "DONE").touch()
        (folder / "predictions").mkdir()
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLD.replace("(sys.argv[1])", "(sys.argv[1]), print"), folder],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert "is working on it" in holder.stdout.readline()
        remove_locked(folder)
        assert not folder.exists()
    assert holder.stdout.readline() == "held\n"
    assert [path.name for path in folder.iterdir()] == ["lock"]
    assert is_claimed(folder)
    holder.kill()
    holder.communicate()


def test_a_folder_in_the_place_of_the_lock_is_named_and_held_by_nobody(tmp_path):
    (tmp_path / "lock").mkdir()
    assert not is_claimed(tmp_path)
    with pytest.raises(IsADirectoryError) as caught, run_lock(tmp_path):
        pass
    assert caught.value.filename == str(tmp_path / "lock")


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    def refuse(*_arguments: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match=str(tmp_path / "lock")) as caught, run_lock(tmp_path):
        pass
    assert caught.value.errno == errno.ENOLCK

"""Workers with tasks that are told what happens to them; spawned processes import this module."""

import os
import signal
import subprocess
import sys
import time
from multiprocessing import forkserver
from pathlib import Path

import pytest
from process_groups import wait_for_the_end

from repro.runs.workers import Death, WorkerPool


def nothing() -> None:
    """Prepare a worker."""


def prepare_slowly() -> None:
    """Name this process, and go on preparing."""
    Path(os.environ["PREPARING"]).write_text(str(os.getpid()))
    time.sleep(60)


def perform(task: tuple[str, str]) -> str:
    what, text = task
    if what == "die":
        os.kill(os.getpid(), int(text))
        time.sleep(30)
    if what == "raise":
        raise ValueError(text)
    if what == "exit":
        os._exit(int(text))
    if what == "wait":
        Path(text).touch()
        time.sleep(60)
    return f"{text} by {os.getpid()}"


def run_all(tasks: list[tuple[str, str]], size: int = 2) -> list[str | Death]:
    results: dict[int, str | Death] = {}
    running: dict[int, int] = {}
    with WorkerPool[tuple[str, str], str](perform, nothing, size) as pool:
        left = list(enumerate(tasks))
        while left or running:
            for slot in pool.idle_slots():
                if left:
                    running[slot], task = left.pop(0)
                    pool.start(slot, task)
            for slot, ended in pool.wait():
                results[running.pop(slot)] = ended
    return [results[number] for number in range(len(tasks))]


def test_a_dead_worker_takes_its_own_task_only():
    tasks = [("die", str(int(signal.SIGKILL))), ("say", "a"), ("say", "b"), ("exit", "7")]
    tasks += [("say", "c"), ("die", str(int(signal.SIGTERM))), ("say", "d")]
    killed, first, second, ended, third, stopped, fourth = run_all(tasks)
    assert killed == Death(-signal.SIGKILL)
    assert "memory" in str(killed)
    assert ended == Death(7)
    assert stopped == Death(128 + signal.SIGTERM)  # it cleaned up
    assert str(int(signal.SIGTERM)) in str(stopped)
    assert [str(text)[0] for text in (first, second, third, fourth)] == ["a", "b", "c", "d"]


def test_a_slot_that_is_retired_gets_a_new_process():
    with WorkerPool[tuple[str, str], str](perform, nothing, 1) as pool:
        found = []
        for _ in range(3):
            pool.start(0, ("say", "a"))
            found.append(pool.wait())
            if len(found) == 2:
                process = pool._workers[0].process
                pool.retire(0)
                assert process.exitcode == 0
        assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("code", [-9, -100, 1, 128, 137, 192, 255])
def test_every_exit_code_is_described(code):
    assert str(Death(code))


def test_workers_go_on_when_the_process_that_starts_them_is_killed():
    with WorkerPool[tuple[str, str], str](perform, nothing, 1) as pool:
        assert pool.start(0, ("say", "a")) is None
        assert pool.wait()[0][1].startswith("a")  # type: ignore[union-attr]
        server = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
        os.kill(server, signal.SIGKILL)
        while pool._workers[0].process.is_alive():  # until its pipe is closed
            time.sleep(0.01)
        if pool.start(0, ("say", "b")) is not None:  # its death may only be noticed by this call
            assert pool.start(0, ("say", "b")) is None
        assert pool.wait()[0][1].startswith("b")  # type: ignore[union-attr]


def test_a_starter_that_dies_while_it_starts_a_worker_costs_one_task(monkeypatch):
    def die(*_: object) -> None:
        raise EOFError

    with WorkerPool[tuple[str, str], str](perform, nothing, 1) as pool:
        with monkeypatch.context() as patched:
            patched.setattr(forkserver._forkserver, "connect_to_new_process", die)
            patched.setattr(forkserver, "connect_to_new_process", die)
            assert pool.start(0, ("say", "a")) == Death(255)
        assert pool.start(0, ("say", "b")) is None
        assert pool.wait()[0][1].startswith("b")  # type: ignore[union-attr]


def test_what_a_task_raises_is_raised_in_the_leader():
    with pytest.raises(ValueError, match="broken"):
        run_all([("raise", "broken"), ("say", "a")])


def test_a_worker_that_is_stopped_while_it_prepares_cleans_up(tmp_path, monkeypatch):
    monkeypatch.setenv("PREPARING", str(tmp_path / "process"))
    with WorkerPool[tuple[str, str], str](perform, prepare_slowly, 1) as pool:
        pool.start(0, ("say", "a"))
        while not (tmp_path / "process").exists() or not (tmp_path / "process").read_text():
            time.sleep(0.02)
        os.kill(int((tmp_path / "process").read_text()), signal.SIGTERM)
        assert pool.wait() == [(0, Death(128 + signal.SIGTERM))]


LEADER = """
import signal, sys
from repro.runs import workers
from test_workers import run_all
workers._LIBRARIES = ()  # no task needs any of them
for one in (signal.SIGINT, signal.SIGTERM):  # in the background shells have SIGINT ignored
    signal.signal(one, signal.default_int_handler)
run_all([("wait", path) for path in sys.argv[1:]])
"""


def start_leader(folder: Path) -> "subprocess.Popen[str]":
    """Start a leader in a process group of its own, and wait until two tasks are in progress."""
    paths = [folder / name for name in "123"]
    search = os.pathsep.join(filter(None, sys.path))
    leader = subprocess.Popen(
        [sys.executable, "-c", LEADER, *map(str, paths)],
        env={**os.environ, "PYTHONPATH": search},
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while len(list(folder.iterdir())) < 2:
        assert time.monotonic() < deadline
        assert leader.poll() is None
        time.sleep(0.02)
    return leader


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_their_leader_and_start_no_other_task(tmp_path, number):
    leader = start_leader(tmp_path)
    leader.send_signal(number)
    _, errors = leader.communicate(timeout=30)
    wait_for_the_end(leader.pid)
    assert len(list(tmp_path.iterdir())) == 2
    assert ("interrupt again" in errors) == (number != signal.SIGKILL)


def test_ctrl_c_reaches_workers_through_their_leader_only(tmp_path):
    leader = start_leader(tmp_path)
    os.killpg(leader.pid, signal.SIGINT)  # as a terminal does
    _, errors = leader.communicate(timeout=30)
    wait_for_the_end(leader.pid)
    assert errors.count("Traceback") == 1  # that of the leader of this test

"""Worker processes: a leader gives each one task after the other, and survives their deaths.

The pools of the standard library end with their first killed process. Here a worker that dies takes
its own task with it and nothing else, and workers whose leader dies stop: idle ones as their pipe
ends, busy ones as on SIGTERM.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any, Generic, TypeVar

TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")

_READY = "ready"
_SIGNALLED = 128
"""Exit status of a process that ended in order after signal ``n`` is this plus ``n``."""
_LIVENESS_SECONDS = 1.0
"""Interval at which the leader checks processes; a pipe may survive its worker in a subprocess."""
_EXIT_SECONDS = 30.0
_LIBRARIES = (
    "torch", "torch._inductor.config", "numba", "pandas", "hydra.utils", "scipy.linalg",
    "rich.console",
)  # fmt: skip
"""What the process imports of which workers are forks: that takes seconds, now once for all.

The package itself is not among it: in forks of a process that has imported the mappings, these do
without OpenMP (:mod:`repro.mappings.kernels.cpu.parallel`).
"""
_NOTICE = (
    "repro: stopping: runs in progress write their checkpoints; interrupt again to stop at once, "
    "which loses what they did since their last checkpoint\n"
)
_STOPPED_AT_ONCE = "stopped at once; the same command continues from the last checkpoints"


@dataclass(frozen=True)
class Death:
    """End of a worker in the middle of a task.

    Attributes:
        exit_code: exit code of the process; ``-n`` or ``128 + n`` after signal ``n``.
    """

    exit_code: int

    def __str__(self) -> str:
        number = -self.exit_code if self.exit_code < 0 else self.exit_code - _SIGNALLED
        if number <= 0:
            return f"its process ended with exit status {self.exit_code}"
        if number == signal.SIGKILL:
            return (
                "its process was killed (SIGKILL), as the system does when memory runs out; try "
                "fewer hardware.parallel_runs or a smaller training.batch_size"
            )
        return f"its process was ended by signal {number} ({signal.strsignal(number)})"


@dataclass
class _Worker:
    process: BaseProcess
    pipe: "Connection[Any, Any]"
    ready: bool = False
    busy: bool = False


@dataclass
class Crew(Generic[TaskT, ResultT]):
    """Processes that perform tasks, one for each of ``size`` lanes; a context manager.

    Leaving the context ends all processes. If that is due to an exception, tasks in progress are
    asked to stop by SIGTERM and waited for; a KeyboardInterrupt meanwhile kills them.

    Args:
        perform: brings a task to its end, in a worker; a function of a module.
        prepare: called in every new worker; a function of a module, or a partial of one.
        size: number of lanes.
    """

    perform: Callable[[TaskT], ResultT]
    prepare: Callable[[], None]
    size: int
    _workers: dict[int, _Worker] = field(default_factory=dict)

    def __enter__(self) -> "Crew[TaskT, ResultT]":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:  # all are idle
            for worker in self._workers.values():
                worker.pipe.close()
            for worker in self._workers.values():
                worker.process.join(_EXIT_SECONDS)
                worker.process.kill()
            return
        # Busy workers stop after a checkpoint, the others at once.
        workers = [worker for worker in self._workers.values() if worker.process.is_alive()]
        if issubclass(kind, KeyboardInterrupt) and any(worker.busy for worker in workers):
            os.write(2, _NOTICE.encode())
        try:
            for worker in workers:
                if worker.busy and worker.ready:
                    worker.process.terminate()
                else:
                    worker.process.kill()
            for worker in workers:
                worker.process.join()
        except KeyboardInterrupt:
            for worker in workers:
                worker.process.kill()
            raise KeyboardInterrupt(_STOPPED_AT_ONCE) from None

    def idle_lanes(self) -> list[int]:
        """Lanes without a task, also those without a process yet."""
        busy = {lane for lane, worker in self._workers.items() if worker.busy}
        return [lane for lane in range(self.size) if lane not in busy]

    def start(self, lane: int, task: TaskT) -> None:
        """Give a task to an idle lane; its process is started, or replaced if it has died."""
        worker = self._workers.get(lane)
        if worker is None or not worker.process.is_alive():
            context = get_context("forkserver")
            context.set_forkserver_preload([*_LIBRARIES])
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_work,
                args=(theirs, dict(os.environ), self.prepare, self.perform),
                name=f"worker-{lane}",
            )
            with signals_of_leader():
                process.start()
            theirs.close()
            worker = self._workers[lane] = _Worker(process, ours)
        worker.busy = True
        with suppress(BrokenPipeError):  # it died just now: the next wait tells
            worker.pipe.send(task)

    def wait(self) -> list[tuple[int, ResultT | Death]]:
        """Wait until tasks have ended; returns their lanes with what became of them.

        Raises:
            Exception: whatever a task raised.
        """
        busy = {lane: worker for lane, worker in self._workers.items() if worker.busy}
        while True:
            wait([worker.pipe for worker in busy.values()], _LIVENESS_SECONDS)
            ended = [(lane, self._receive(worker)) for lane, worker in busy.items()]
            done = [(lane, result) for lane, result in ended if result is not None]
            if done:
                return done

    def _receive(self, worker: _Worker) -> ResultT | Death | None:
        """Read what a worker has sent; None if its task goes on."""
        alive = worker.process.is_alive()  # before reading: what it sent last is still read
        try:
            while worker.pipe.poll():
                message = worker.pipe.recv()
                if message == _READY:
                    worker.ready = True
                    continue
                worker.busy = False
                if isinstance(message, Exception):
                    raise message
                result: ResultT = message
                return result
        except (EOFError, ConnectionResetError):
            worker.process.join(_EXIT_SECONDS)
            alive = False
        if alive:
            return None
        worker.busy = False
        return Death(worker.process.exitcode or 0)


@contextmanager
def signals_of_leader() -> Iterator[None]:
    """Start processes that Ctrl-C and Slurm's warning (SIGUSR2) do not reach.

    The leader, which belongs to the same process group, decides what becomes of them.
    """
    resource_tracker.ensure_running()  # with the first process, it would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGUSR2})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(
    pipe: "Connection[Any, Any]",
    environment: Mapping[str, str],
    prepare: Callable[[], None],
    perform: Callable[[Any], Any],
) -> None:
    """Perform tasks until the leader has none anymore, is gone, or stops this process."""

    def terminate(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once: what follows cleans up
        raise KeyboardInterrupt

    def stop_with_leader() -> None:
        leader = parent_process()
        assert leader is not None
        leader.join()
        os.kill(os.getpid(), signal.SIGTERM)

    os.environ.clear()  # the leader's may have changed since the first fork
    os.environ.update(environment)
    signal.signal(signal.SIGTERM, terminate)
    threading.Thread(target=stop_with_leader, daemon=True).start()
    prepare()
    try:
        pipe.send(_READY)
        while True:
            task = pipe.recv()
            try:
                result = perform(task)
            except Exception as error:
                result = error
            pipe.send(result)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    except KeyboardInterrupt:
        sys.exit(_SIGNALLED + signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the exit itself must not be interrupted

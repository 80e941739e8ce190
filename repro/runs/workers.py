"""Worker processes: a leader gives each one task at a time, and survives their deaths.

The pools of the standard library break when one process is killed. Here, a worker that dies loses
only its own task, and workers whose leader dies stop: idle ones because their pipe is closed, busy
ones as on SIGTERM.
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
"""Offset of exit statuses: this plus ``n`` for a process that exits cleanly on signal ``n``."""
_NO_STARTER = 255
"""Exit code that multiprocessing reports if the process that starts workers was killed."""
_LIVENESS_SECONDS = 1.0
"""Interval at which the leader checks processes: a subprocess may keep a dead one's pipe open."""
_EXIT_SECONDS = 30.0
_LIBRARIES = ("torch", "numba", "pandas", "hydra.utils", "scipy.linalg", "rich.console")
"""Modules that the fork server imports, once for all workers, since that takes seconds."""
_NOTICE = (
    "repro: stopping: runs in progress write their checkpoints; interrupt again to stop at once, "
    "which loses what they did since their last checkpoint\n"
)
_STOPPED_AT_ONCE = "stopped at once; the same command continues from the last checkpoints"


@dataclass(frozen=True)
class Death:
    """End of a worker in the middle of a task."""

    exit_code: int  # exit code of the process; -n or 128 + n after signal n

    def __str__(self) -> str:
        number = -self.exit_code if self.exit_code < 0 else self.exit_code - _SIGNALLED
        if self.exit_code == _NO_STARTER:
            return "the process that starts workers was killed"
        if number not in signal.valid_signals():
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
class WorkerPool(Generic[TaskT, ResultT]):
    """Processes that perform tasks, one for each of ``size`` slots; a context manager.

    Leaving the context ends all processes. On an exception, tasks in progress are sent SIGTERM and
    waited for; a KeyboardInterrupt meanwhile kills them.

    Args:
        perform: executes a task in a worker; a module-level function, as it is pickled.
        prepare: called in every new worker; a module-level function, or a partial of one.
        size: number of slots.
    """

    perform: Callable[[TaskT], ResultT]
    prepare: Callable[[], None]
    size: int
    _workers: dict[int, _Worker] = field(default_factory=dict)

    def __enter__(self) -> "WorkerPool[TaskT, ResultT]":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:  # all are idle
            for worker in self._workers.values():
                worker.pipe.close()
            for slot in [*self._workers]:
                self.retire(slot)
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

    def idle_slots(self) -> list[int]:
        """List the slots without a task, including those without a process yet."""
        busy = {slot for slot, worker in self._workers.items() if worker.busy}
        return [slot for slot in range(self.size) if slot not in busy]

    def retire(self, slot: int) -> None:
        """End the process of an idle slot, so that its next task gets a new one."""
        worker = self._workers.pop(slot)
        worker.pipe.close()
        worker.process.join(_EXIT_SECONDS)
        worker.process.kill()

    def start(self, slot: int, task: TaskT) -> Death | None:
        """Give a task to an idle slot, after starting its process or replacing a dead one.

        Returns:
            A death if the process that starts workers was killed; the next call starts another.
        """
        worker = self._workers.get(slot)
        if worker is None or not worker.process.is_alive():
            context = get_context("forkserver")
            context.set_forkserver_preload([*_LIBRARIES])
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_work,
                args=(theirs, dict(os.environ), self.prepare, self.perform),
                name=f"worker-{slot}",
            )
            try:
                with signals_of_leader():
                    process.start()
            except (EOFError, ConnectionError):
                return Death(_NO_STARTER)
            theirs.close()
            worker = self._workers[slot] = _Worker(process, ours)
        worker.busy = True
        with suppress(BrokenPipeError):  # it died just now: the next wait reports it
            worker.pipe.send(task)
        return None

    def wait(self) -> list[tuple[int, ResultT | Death]]:
        """Wait until a task has ended; return the slots of ended tasks with results or deaths.

        Raises:
            Exception: whatever a task raised.
        """
        busy = {slot: worker for slot, worker in self._workers.items() if worker.busy}
        while True:
            wait([worker.pipe for worker in busy.values()], _LIVENESS_SECONDS)
            ended = [(slot, self._receive(worker)) for slot, worker in busy.items()]
            done = [(slot, result) for slot, result in ended if result is not None]
            if done:
                return done

    def _receive(self, worker: _Worker) -> ResultT | Death | None:
        """Return the result or death of a worker; None if its task is still running."""
        alive = worker.process.is_alive()  # before reading, so that its last message is not missed
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
    """Mask Ctrl-C and Slurm's warning (SIGUSR2) for processes that are started in the block.

    The leader, which is in the same process group, receives these signals and decides.
    """
    resource_tracker.ensure_running()  # if started later, it would unblock SIGINT
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
    """Perform tasks until the leader closes the pipe, dies, or stops this process."""

    def terminate(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # only once: cleanup follows
        raise KeyboardInterrupt

    def stop_with_leader() -> None:
        leader = parent_process()
        assert leader is not None
        leader.join()
        os.kill(os.getpid(), signal.SIGTERM)

    os.environ.clear()  # the leader's may have changed since the first fork
    os.environ.update(environment)
    try:
        signal.signal(signal.SIGTERM, terminate)
        threading.Thread(target=stop_with_leader, daemon=True).start()
        prepare()
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

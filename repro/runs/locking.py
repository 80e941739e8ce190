"""Exclusive claims on run folders, for processes of one machine or of several.

A claim is a file in the run folder that names its process. Its modification time is the heartbeat:
the process renews it every :data:`HEARTBEAT_SECONDS`. To enter, a process writes its own claim
*before* it lists the claims of others, and holds the run only if no other claim is alive; of two
that enter at the same time, at least one therefore sees the other. Names are never reused, so that
removing the claim of a dead process cannot remove the claim of its successor.

A claim is dead once its process is gone, if that process ran on this machine (same boot and PID
namespace), and otherwise after :data:`STALE_SECONDS` without a heartbeat. Ages are differences of
two modification times from the same file system, so that clocks may differ between machines.

No kernel lock is involved: network file systems often lack them (ENOLCK, ENOSYS, EOPNOTSUPP) or
keep them to one machine without an error. The leases of the package ``filelock`` do not serve
either: they are taken over by an atomic exchange of two names, which NFS and SMB refuse.
"""

import json
import os
import random
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from repro.atomic import atomic_write_json
from repro.processes import process_start, system_identity

HEARTBEAT_SECONDS = 15.0
STALE_SECONDS = 120.0
"""Eight heartbeats, so that a machine that swaps or a server that restarts is not declared dead."""
_POLL_SECONDS = 1.0
_ENTRY_SECONDS = 1.0
"""Seconds that the first of several entering processes waits for the others to withdraw."""


@dataclass(frozen=True)
class Holder:
    """The process behind a claim.

    Attributes:
        host: network name of its machine, for messages.
        system: boot and PID namespace, within which ``pid`` names one process.
        pid: process number.
        process_start: start of the process in clock ticks since boot, which tells it from a later
            process of the same number; 0 if the system does not tell.
        since: when it claimed the run (UTC, ISO 8601).
    """

    host: str
    system: str
    pid: int
    process_start: int
    since: str

    def is_alive(self, silence: float) -> bool:
        """Return whether the process may still be working on the run.

        Args:
            silence: seconds since its last heartbeat; decides for processes of other systems.
        """
        if self.system != system_identity():
            return silence < STALE_SECONDS
        start = process_start(self.pid)
        return start is not None and (
            start == self.process_start or 0 in (start, self.process_start)
        )


class RunBusyError(RuntimeError):
    """Raised when another process works on the run."""

    def __init__(self, folder: Path, holder: Holder) -> None:
        super().__init__(
            f"{folder}: another process on {holder.host}, pid {holder.pid} is working on it "
            f"since {holder.since}"
        )
        self.holder = holder


class RunLostError(RuntimeError):
    """Raised when the claim of this process is gone: another process may own the run."""


class RunLock:
    """Claim of this process on a run folder, from :func:`run_lock`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lost = False
        """Set by the heartbeat once the run belongs to another process."""

    def check(self) -> None:
        """Renew the claim; call this before writing what only one process may write.

        Raises:
            RunLostError: the claim is gone.
        """
        try:
            os.utime(self.path)
        except FileNotFoundError:
            self.lost = True
        if self.lost:
            raise RunLostError(
                f"{self.path.parent}: the claim of this process is gone; after "
                f"{STALE_SECONDS:g} s without a sign of life another process may take over a run"
            )

    def _beat(self, stop: threading.Event) -> None:
        """Renew the claim until ``stop`` is set or the claim is lost."""
        renewed, rivals = time.monotonic(), set[str]()
        while not stop.wait(HEARTBEAT_SECONDS):
            try:
                self.check()
                # An entering process withdraws within seconds; an earlier claim that is there for
                # two heartbeats is held. It was invisible on entry: the younger claim gives way.
                earlier = {name for name, _ in _others(self.path) if name < self.path.name}
                self.lost = bool(rivals & earlier)
                renewed, rivals = time.monotonic(), earlier
            except RunLostError:
                return
            except OSError:  # a server restarts: no loss until others may take over
                self.lost = time.monotonic() - renewed > STALE_SECONDS
            if self.lost:
                return


@contextmanager
def run_lock(
    folder: Path, on_busy: Callable[[RunBusyError], None] | None = None
) -> Iterator[RunLock]:
    """Claim a run folder exclusively while the block runs.

    Read the content of the folder inside the block only: it may change until then.

    Args:
        folder: folder of the run; created if it is missing.
        on_busy: called once if another process holds the run, which is then waited for.

    Raises:
        RunBusyError: another process holds the run, and there is no ``on_busy``.
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    told = False
    while True:
        try:
            path = _enter(folder)
            break
        except RunBusyError as busy:
            if on_busy is None:
                raise
            if not told:
                on_busy(busy)
            told = True
        time.sleep(_POLL_SECONDS * random.uniform(1, 2))  # keep waiting processes out of step
    lock, stop = RunLock(path), threading.Event()
    heart = threading.Thread(target=lock._beat, args=(stop,), name="run-lock", daemon=True)
    try:
        heart.start()
        yield lock
    finally:
        stop.set()
        path.unlink(missing_ok=True)


def is_claimed(folder: Path) -> bool:
    """Return whether a process works on a run, without writing to its folder.

    The age of a claim of another machine is measured with the clock of this one.
    """
    for path in folder.glob("claim-*.json"):
        with suppress(FileNotFoundError):
            if _read(path).is_alive(time.time() - path.stat().st_mtime):
                return True
    return False


def announce(busy: RunBusyError) -> None:
    """Print that this process waits; usable as ``on_busy`` of :func:`run_lock`."""
    print(f"repro: waiting: {busy}", file=sys.stderr)


def _enter(folder: Path) -> Path:
    """Write a claim and return its path once no other claim is alive."""
    path = folder / f"claim-{time.time_ns():020d}-{secrets.token_hex(4)}.json"
    deadline = time.monotonic() + _ENTRY_SECONDS
    try:
        since, pid = datetime.now(UTC).isoformat(timespec="seconds"), os.getpid()
        start = process_start(pid) or 0
        holder = Holder(socket.gethostname(), system_identity(), pid, start, since)
        atomic_write_json(path, asdict(holder))
        while others := _others(path):
            name, first = others[0]
            if name < path.name or time.monotonic() > deadline:
                raise RunBusyError(folder, first)
            time.sleep(0.05)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path


def _others(own: Path) -> list[tuple[str, Holder]]:
    """List living claims of other processes by name, the first that entered first.

    Dead claims are removed.
    """
    now, found = own.stat().st_mtime, []
    for path in sorted(own.parent.glob("claim-*.json")):
        if path == own:
            continue
        with suppress(FileNotFoundError):
            holder, silence = _read(path), now - path.stat().st_mtime
            if holder.is_alive(silence):
                found.append((path.name, holder))
            else:
                path.unlink()
    return found


def _read(path: Path) -> Holder:
    try:
        return Holder(**json.loads(path.read_bytes()))
    except (ValueError, TypeError):  # torn by a crash of the whole machine: dead once it is stale
        return Holder("an unknown host", "", 0, 0, "an unknown time")

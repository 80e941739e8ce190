"""Orderly stops: what SIGINT (Ctrl-C) and SIGTERM do to a training in progress.

During updates the first signal is remembered, the update ends and a checkpoint is written; a
second signal stops at once. During evaluation, which changes nothing that a checkpoint holds, the
first signal stops at once. While a checkpoint is being written, signals wait for its end.

If a run has several processes, they only remember signals and stop together, after the same update.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process
from types import FrameType
from typing import Literal

from repro.training import distributed

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_NOTICE = (
    "repro: stopping after this update; interrupt again to stop at once, which loses what was done "
    "since the last checkpoint\n"
)
_STOPPED_AT_ONCE = "stopped at once; the same command continues from the last checkpoint"


class StopRequest:
    """Record of requests to stop this process, which decides when they take effect.

    A worker process of a sweep prints no notice and does not stop at once on a second signal:
    Ctrl-C reaches the whole process group in addition to the leader's own signal, and the leader
    informs the user. To stop a worker at once, the leader sends SIGKILL.
    """

    def __init__(self) -> None:
        self.requested = False
        self._when: Literal["after_update", "now", "after_block"] = "after_update"

    @contextmanager
    def stopping(self, when: Literal["now", "after_block"]) -> Iterator[None]:
        """Set when a request takes effect while the block runs.

        Args:
            when: ``"now"`` raises KeyboardInterrupt, also for an earlier request; with
                ``"after_block"`` a request is only recorded. Several processes only record.
        """
        before, self._when = self._when, when
        try:
            if self.requested and when == "now" and distributed.size() == 1:
                raise KeyboardInterrupt
            yield
        finally:
            self._when = before

    def receive(self, _number: int, _frame: FrameType | None) -> None:
        """Handle a signal; see :func:`stop_requests`."""
        repeated, self.requested = self.requested, True
        if distributed.size() > 1:
            return
        if self._when == "now":
            raise KeyboardInterrupt
        if self._when == "after_block" or parent_process() is not None:
            return
        if repeated:
            raise KeyboardInterrupt(_STOPPED_AT_ONCE)
        os.write(2, _NOTICE.encode())  # not print: a handler may interrupt a write to sys.stderr


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Record SIGINT and SIGTERM while the block runs; only the main thread can receive them."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    previous = {number: signal.signal(number, request.receive) for number in _SIGNALS}
    try:
        yield request
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)

"""Stop at a clean point: the first Ctrl-C finishes the step, the second stops at once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Whether somebody asked the run to stop."""

    def __init__(self) -> None:
        self.requested = False

    def __bool__(self) -> bool:
        return self.requested


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Collect SIGINT and SIGTERM while the block runs (in the main thread; elsewhere none)."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def remember(_number: int, _frame: FrameType | None) -> None:
        if request.requested:
            raise KeyboardInterrupt
        request.requested = True

    previous = {number: signal.signal(number, remember) for number in _SIGNALS}
    try:
        yield request
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)

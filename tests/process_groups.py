"""Groups of processes that tests start and kill."""

import os
import signal
import time


def wait_for_the_end(group: int, seconds: float = 60) -> None:
    """Wait until no process of a group is left; kill those that stay.

    Raises:
        AssertionError: one stayed.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.killpg(group, signal.SIGKILL)
    raise AssertionError("a process of the group is left")

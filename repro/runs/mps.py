"""Sharing one NVIDIA card among processes: without MPS, the card runs them in turn."""

import logging
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

_log = logging.getLogger(__name__)
_CONTROL = "nvidia-cuda-mps-control"
_PLACES = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_SECONDS = 30.0
_PROBE_SECONDS = 120.0
"""Time of the probe, which imports PyTorch, perhaps from a cold disk."""
_PROBE = "import torch; torch.zeros(1, device='cuda')"
"""Starts the server, which the daemon does not do before the first process asks for it."""

_FREE = "import torch; print(torch.cuda.mem_get_info()[0])"


def free_memory() -> int | None:
    """Return the free memory of the card in bytes, or None if it does not say.

    Another process asks: in this one, CUDA would take half a gigabyte until the last run has ended.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-c", _FREE], capture_output=True, text=True, timeout=_PROBE_SECONDS,
            start_new_session=True,
        )  # fmt: skip
        return int(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None


@contextmanager
def shared_card() -> Iterator[None]:
    """Let processes started in the block compute on the card at the same time.

    A daemon of their own serves them from a temporary folder; it ends with the block. One that the
    environment names already is used as it is. Without a daemon, or if its server does not start,
    so that processes would find no card, they share the card all the same, in time slices, and the
    log says so.

    The daemon numbers the cards of ``CUDA_VISIBLE_DEVICES`` anew. Processes that had this variable
    as well would look for a second card among the only one, and find none.
    """
    if _PLACES[0] in os.environ:
        yield
        return
    # The daemon may still write to its folder while that is removed.
    with TemporaryDirectory(prefix="repro-mps-", ignore_cleanup_errors=True) as folder:
        places = dict.fromkeys(_PLACES, folder)
        if (reason := _call([_CONTROL, "-d"], "", places)) is None:
            visible = os.environ.pop(_VISIBLE, None)
            try:
                reason = _call([sys.executable, "-c", _PROBE], "", places, _PROBE_SECONDS)
                if reason is None:
                    os.environ.update(places)
                    yield
                    return
            finally:
                for name in _PLACES:
                    os.environ.pop(name, None)
                if visible is not None:
                    os.environ[_VISIBLE] = visible
                if (failure := _call([_CONTROL], "quit\n", places)) is not None:
                    _log.warning("the MPS daemon of %s did not end: %s", folder, failure)
        _log.warning("no MPS, so that runs take turns on the card: %s", reason)
        yield


def _call(
    command: list[str], text: str, places: dict[str, str], seconds: float = _SECONDS
) -> str | None:
    """Run a command with a text as its input; return why that failed, or None."""
    try:
        # A session of its own: Ctrl-C is for the runs, which write checkpoints on the card's data.
        done = subprocess.run(
            command, input=text, env=os.environ | places, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=seconds,
            start_new_session=True,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return f"{shlex.join(command)} ended with status {done.returncode}" if done.returncode else None

"""Commands of the package in forks of a process that has imported torch and the other libraries.

Their import takes seconds, most of the time of a tiny run. The package itself is not imported
before the fork: each command does that, in its own environment, as ``python -m repro`` does. A
warning meant for users ends a command.
"""

import os
import runpy
import subprocess
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory

_SERVER = get_context("forkserver")
_SERVER.set_forkserver_preload(
    [
        "torch", "torch.nn.parallel", "hydra.utils", "numba", "pandas",
        "pyarrow.dataset", "scipy.linalg", "sacrebleu", "matplotlib.figure", "rich.console",
    ]
)  # fmt: skip


@dataclass(frozen=True)
class Command:
    """A command in progress.

    Attributes:
        process: its process, the leader of a process group.
        streams: folder of the files that it writes its output and its errors to.
    """

    process: BaseProcess
    streams: "TemporaryDirectory[str]"

    def finish(self, timeout: float = 200) -> "subprocess.CompletedProcess[str]":
        """Wait for the end; a process that goes on for longer is killed, which is a failure."""
        self.process.join(timeout)
        status = self.process.exitcode
        if status is None:
            self.process.kill()  # else the exit of pytest would wait for it
            raise AssertionError(f"{self.process.name} went on after {timeout} seconds")
        output, errors = (Path(self.streams.name, name).read_text("utf-8") for name in "12")
        self.streams.cleanup()
        return subprocess.CompletedProcess(self.process.name, status, output, errors)


def start(
    *arguments: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> Command:
    """Start a command with further variables of the environment."""
    streams = TemporaryDirectory()
    settings = (arguments, cwd or Path.cwd(), {**os.environ, **(environment or {})}, streams.name)
    process = _SERVER.Process(target=_main, args=settings, name=f"repro {' '.join(arguments)}")
    process.start()
    return Command(process, streams)


def run(
    *arguments: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end."""
    return start(*arguments, cwd=cwd, environment=environment).finish()


def _main(arguments: tuple[str, ...], cwd: Path, environment: dict[str, str], streams: str) -> None:
    os.setsid()
    for number in (1, 2):
        with Path(streams, str(number)).open("wb") as file:
            os.dup2(file.fileno(), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.dont_write_bytecode = bool(environment.get("PYTHONDONTWRITEBYTECODE"))
    warnings.simplefilter("error", UserWarning)
    sys.argv[1:] = arguments
    runpy.run_module("repro", run_name="__main__", alter_sys=True)

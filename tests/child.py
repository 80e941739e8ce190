"""Python in a process of its own, for what has to be set before something is imported."""

import os
import subprocess
import sys
from pathlib import Path


def run_python(*command: str, paths: tuple[Path, ...] = (), **variables: str) -> str:
    """Run Python, which must end well, and return what it prints.

    ``paths`` come before those of ``PYTHONPATH``; ``variables`` are set in the environment.
    """
    places = filter(None, (*map(str, paths), os.environ.get("PYTHONPATH")))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places)} | variables
    done = subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    return done.stdout


def run_tests(*arguments: str, paths: tuple[Path, ...] = (), **variables: str) -> str:
    """Run tests, which must pass, and return what pytest prints."""
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return run_python(*command, paths=paths, **variables)

"""Kernels for CUDA without a device: their launchers under Triton's interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
CHECKS = Path(__file__).with_name("triton_interpreter_checks.py")


def test_launchers_in_the_interpreter():
    """Run in a process of its own: triton decides at import whether to interpret kernels."""
    tests = CHECKS.parents[2]
    paths = [str(tests), str(tests / "mappings"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {
        "TRITON_INTERPRET": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    # Numpy, which computes what a kernel masks out as well, warns of it.
    command += ["-W", "ignore::RuntimeWarning", str(CHECKS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]

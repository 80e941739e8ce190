"""Tests that must pass before anything is timed."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_MAPPINGS = ("tests/laws", "tests/mappings/test_values.py", "tests/mappings/kernels")
TESTS: dict[str, tuple[str, ...]] = {
    "mapping": _MAPPINGS,
    "peer": _MAPPINGS,
    "loss": ("tests/losses/test_fenchel_young.py", "tests/losses/test_linear.py"),
    "structure": ("tests/structures/test_oracles.py", "tests/structures/test_sparsemap.py"),
}
"""Tests of each kind of row."""


def failure(kinds: Iterable[str]) -> str | None:
    """Run the tests of the given kinds of rows.

    Returns:
        None if all pass, else the end of what pytest printed.
    """
    paths = sorted({path for kind in kinds for path in TESTS[kind]})
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 0:
        return None
    return "\n".join((done.stdout + done.stderr).splitlines()[-30:])

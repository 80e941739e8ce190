"""One thread for each test process, as the suite runs side by side; kernels are compiled once.

Every test draws the same random numbers, in whatever order the tests run.
"""

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from repro.cli import main

torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"  # of the processes that tests start
# The time of an example says how busy the machine is, not whether the code is right.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")
# Nothing that a test writes has to survive a power failure, and thousands of files are written.
os.fsync = lambda descriptor: None

_FIRST = (
    "mappings/kernels/test_entmax.py",
    "data", "config/test_compose.py", "config/test_identity.py", "decoding", "evaluation",
    "results", "training",
    "mappings/kernels/test_mappings.py",
    "cli", "runs",
    "structures/test_open_structures.py",
    "experiments",
    "mappings/kernels/test_fuzz.py", "test_simulated_card.py", "tasks/test_accelerator_updates.py",
    "test_wheel.py", "test_add_a_structure.py", "test_add_a_mapping.py", "test_tutorials.py",
    "test_add_a_model.py", "test_site.py", "test_add_a_paper.py", "test_add_a_task.py",
)  # fmt: skip
"""Files that compile most kernels, each followed by what another process can do in the meantime
without them: the compiled code is on disk when it is needed, and no process compiles it again.
Other files that take long come next, so that short ones are left when processes finish."""


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Sets the number of threads; one again afterwards."""
    yield torch.set_num_threads
    torch.set_num_threads(1)


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that is refused in one line, and return the line."""

    def line_of(*arguments: str) -> str:
        capsys.readouterr()
        assert main([*arguments]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("repro: ")
        return line.removeprefix("repro: ")

    return line_of


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _rank(item.path))


@cache
def _rank(path: Path) -> int:
    file = path.relative_to(Path(__file__).parent)
    found = (place for place, first in enumerate(_FIRST) if file.is_relative_to(first))
    return next(found, len(_FIRST))

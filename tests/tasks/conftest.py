from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One results folder, so that each corpus is prepared, and aligned, once."""
    return tmp_path_factory.mktemp("results")

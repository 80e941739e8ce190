"""Small runs: two generated languages, a tiny model, a few updates."""

import shutil
from pathlib import Path

import pytest
from executed import executed
from three_runs import add_table

from repro.config.compose import compose_run
from repro.results import RunFolder

TINY = [
    "hardware=cpu", "hardware.parallel_runs=1", "task.setting=medium", "task.stored_examples=2",
    "model.embedding_size=8", "model.hidden_size=8", "model.layers=1", "training.max_epochs=2",
    "training.validate_every=1", "decoding.max_length=6", "decoding.max_hypotheses=10",
]  # fmt: skip
SUMMARIZER = [
    "task=summarization", "hardware=cpu", "hardware.threads=1", "task.stored_examples=2",
    "mapping=softmax", "model.embedding_size=8", "model.hidden_size=8", "training.max_epochs=1",
    "training.batch_size=256", "decoding.max_length=6", "decoding.beam_size=2",
]  # fmt: skip


@pytest.fixture
def tiny(tmp_path: Path) -> list[str]:
    """Overrides of a run that takes about a second."""
    return [f"results_dir={tmp_path}", *TINY]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of a table of three runs."""
    return add_table(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Overrides as ``tiny``, of a run that is made once."""
    return [f"results_dir={tmp_path_factory.mktemp('shared')}", *TINY]


@pytest.fixture
def summarizer(tmp_path: Path) -> list[str]:
    """Overrides of a summarizer of one short epoch."""
    return [f"results_dir={tmp_path}", *SUMMARIZER]


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A finished summarizer, not to be changed."""
    results = tmp_path_factory.mktemp("finished")
    return executed(compose_run([f"results_dir={results}", *SUMMARIZER]))


@pytest.fixture
def copied(finished: RunFolder, summarizer: list[str], tmp_path: Path) -> RunFolder:
    """A copy of the finished summarizer, which the overrides ``summarizer`` find."""
    results = finished.path.parents[2]
    shutil.copytree(results, tmp_path, dirs_exist_ok=True)
    return RunFolder(tmp_path / finished.path.relative_to(results))

"""Small runs: two generated languages, a tiny model, a few updates."""

from pathlib import Path

import pytest


@pytest.fixture
def tiny(tmp_path: Path) -> list[str]:
    """Overrides of a run that takes about a second."""
    return [
        f"results_dir={tmp_path}",
        "hardware=cpu",
        "hardware.parallel_runs=1",
        "task.setting=medium",
        "task.stored_examples=2",
        "model.embedding_size=8",
        "model.hidden_size=8",
        "model.layers=1",
        "training.max_epochs=2",
        "training.validate_every=1",
        "decoding.max_length=6",
        "decoding.max_hypotheses=10",
    ]

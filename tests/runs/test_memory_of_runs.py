"""Runs that need more memory than there is: refused before data are read, or explained."""

import numpy as np
import pytest
import torch

from repro.config.compose import compose_run
from repro.runs.environment import OutOfMemoryError, enough_memory
from repro.runs.execute import execute
from repro.runs.job import locate

HUGE = 10**15


@pytest.mark.parametrize(
    "settings",
    [
        ["model.hidden_size=1000000000"],
        ["task=nmt", "model.hidden_size=100000"],
        ["task=parsing", "model.lstm_size=1000000"],
        ["task=snli", "model.hidden_size=1000000"],
    ],
)
def test_models_beyond_the_memory_are_refused_before_data_are_read(settings, tmp_path, refused):
    assert settings[-1].split("=")[0] in refused(
        "run", *settings, f"results_dir={tmp_path / 'results'}"
    )
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    "allocate",
    [
        lambda: torch.empty(HUGE, dtype=torch.uint8),
        lambda: torch.empty(2**40, 2**40),
        lambda: np.ones(HUGE, dtype=np.uint8),
        lambda: bytes(HUGE),
    ],
)
def test_a_failed_allocation_names_the_largest_sizes(allocate):
    config = compose_run(["decoding.max_length=77777", "hardware=cpu"])
    with (
        pytest.raises(OutOfMemoryError, match=r"decoding\.max_length \(now 77777\)") as caught,
        enough_memory(config, "decoding", "model"),
    ):
        allocate()
    assert "\n" not in str(caught.value)


def test_other_errors_pass():
    with pytest.raises(RuntimeError, match="size mismatch"), enough_memory(compose_run([])):
        raise RuntimeError("size mismatch")


def test_a_run_without_memory_fails_in_one_line(tiny, monkeypatch):
    monkeypatch.setattr("repro.runs.train.fit", lambda *_: torch.empty(HUGE, dtype=torch.uint8))
    outcome = execute(locate(compose_run(tiny)))
    assert outcome.status == "failed"
    assert outcome.error.startswith(f"OutOfMemoryError: no memory for {HUGE} bytes more")
    assert "\n" not in outcome.error

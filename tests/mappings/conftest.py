"""Memory of which every entry has to be written."""

import pytest
import torch


@pytest.fixture
def poisoned(monkeypatch):
    """Memory that no kernel wrote is NaN."""
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)

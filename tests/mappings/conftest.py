"""Every test draws the same numbers, in whatever order the tests run."""

import pytest
import torch


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)

"""How much is compiled in a first call."""

import pytest
from child import run_python

pytest.importorskip("numba")

MOST = 98
"""Compiled functions; 94 with numba 0.68. Each takes some 50 ms."""
PROGRAM = """
import torch
from numba.core import event
from repro.mappings import entmax
with event.install_recorder("numba:compile") as found:
    entmax(torch.randn(64, 25), 1.5)
print(sum(each.is_start for _, each in found.buffer))
"""


def test_a_first_call_compiles_few_functions(tmp_path):
    compiled = int(
        run_python("-c", PROGRAM, NUMBA_CACHE_DIR=str(tmp_path), REPRO_KERNELS="require")
    )
    assert 0 < compiled <= MOST

"""Tests of CUDA on a simulated card: some for each task here, all by ``make test-card``."""

import shutil
from pathlib import Path

import pytest
import torch
from child import run_python, run_tests

TESTS = Path(__file__).parent
pytestmark = pytest.mark.skipif(
    shutil.which("g++") is None or not torch.__version__.startswith("2.13.0+cpu"),
    reason="the card is simulated for the CPU build of PyTorch 2.13, with g++",
)
REFUSED = """\
import os
import simulated_card
import pytest
import torch

card, ids = torch.ones(2, 2, device="cuda"), torch.arange(2, device="cuda")
with pytest.raises(RuntimeError, match="tensors on"):
    card + torch.ones(2)
with pytest.raises(RuntimeError, match="not implemented"):
    ids.view(1, 2) @ ids.view(2, 1)
total = torch.zeros(2, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    doubled = card.sum(0) * 2
    total += doubled
assert total.tolist() == [0, 0]
assert doubled.isnan().all()
for count in (1, 2):
    graph.replay()
    assert total.tolist() == [4 * count] * 2
for read in (card.tolist, card.nonzero, card.cpu, lambda: bool(card.any()), lambda: card[card > 0]):
    with pytest.raises(RuntimeError, match="capturing"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        read()
layer = torch.nn.GRU(2, 3, batch_first=True).cuda().eval()
with pytest.raises(RuntimeError, match="training mode"):
    layer(card.unsqueeze(0))
os._exit(0)
"""


def test_a_simulated_card_refuses_what_a_card_does():
    run_python("-c", REFUSED, paths=(TESTS,))


GRAPHS = (
    "morphology-sparsemax-entmax-1.5-loss", "nmt-csparsemax-guided", "snli-fusedmax",
    "summarization-mlp", "nli_alignment-alignment-matching",
)  # fmt: skip
UPDATES = (
    "morphology-entmax-1.25-", "nmt-csoftmax-aligned", "summarization-coverage",
    "snli-sparsemax-entmax", "parsing-sparsemap", "nli_alignment-alignment-matching",
)  # fmt: skip
CHOSEN = " or ".join(
    [f"(bits and {name})" for name in GRAPHS]
    + [f"(those_of_the_cpu and float64 and {name})" for name in UPDATES]
    + ["by_graphs", "bfloat16 and nmt-mlp", "equal_weights and nmt-csparsemax-predicted"]
    + ["packed_rows", "cell", "crf_on_a_device"]
)


def test_updates_searches_and_resumed_trainings_on_a_simulated_card():
    files = (
        "losses", "models", "tasks/test_device_updates.py", "training/test_graphs.py",
    )  # fmt: skip
    options = ["-x", "-n0", "-p", "simulated_card", "-m", "gpu", "-k", CHOSEN]
    run_tests(*options, *(str(TESTS / file) for file in files), paths=(TESTS,))

"""Kernels for CUDA without a device: they compile for sm_90 and keep their values in registers.

``python tests/mappings/kernels/registers.py`` compiles each kernel for all tiles; this is a sample.
"""

import inspect
import sys

import pytest
import torch

pytest.importorskip("triton")

from registers import CALLS, compiled_only
from triton.runtime import JITFunction

from repro.mappings.kernels.cuda import bounded, entmax, grouped, launch, norm, policy
from repro.mappings.kernels.dispatch import CudaLauncher, launchers

FAMILIES = (entmax, bounded, grouped, norm)
SINGLE, DOUBLE = torch.float32, torch.float64
LONGEST = 3000
"""Row in the longest tile that is held where powers are taken; longer than that of scans."""

COMPILED_BELOW = (
    "softmax", "softmax, loss", "sparsemax, loss", "1.5-entmax, loss", "entmax, loss, α > 2",
)  # fmt: skip
"""Calls in other tiles, or with the kernels of others: compilation takes seconds."""

SAMPLE = [
    *((name, SINGLE, LONGEST) for name in CALLS if name not in COMPILED_BELOW),
    ("sparsemax", SINGLE, 16384),
    ("softmax", SINGLE, 16384),
    ("softmax, loss", SINGLE, 20000),
    ("1.5-entmax, loss", SINGLE, 8000),
    ("1.5-entmax, loss", DOUBLE, 4000),
    ("sparsemax", SINGLE, 20000),
    ("entmax, α > 2", SINGLE, 50),
    ("entmax, α per row", SINGLE, 1000),
    ("sq-pnorm-max", SINGLE, 5000),
    ("oscarmax", SINGLE, 50),
    ("csoftmax", DOUBLE, 1000),
    ("csoftmax", DOUBLE, 2000),
    ("csparsemax", DOUBLE, 2000),
    ("budget", DOUBLE, 4000),
    ("fusedmax and oscarmax, backward", DOUBLE, policy.PAIRWISE_ENTRIES),
]
"""Calls, precisions and row lengths; those that need most registers, and every kernel once."""


@pytest.mark.parametrize(("name", "dtype", "length"), SAMPLE)
def test_compiles_without_a_stack(name, dtype, length):
    with compiled_only() as found:
        CALLS[name](torch.zeros(4, length, dtype=dtype))
    assert found
    for usage in found:
        assert ".target sm_90" in usage.binary.asm["ptx"]
        assert 0 < usage.registers <= policy.registers(usage.warps)
        assert usage.stack == 0


def test_a_stack_is_seen(monkeypatch):
    """The report of the assembler is read: too few registers show."""
    monkeypatch.setattr(policy, "registers", lambda warps: 32)
    with compiled_only() as found:
        CALLS["budget"](torch.zeros(4, LONGEST))
    assert found[0].registers <= 32
    assert found[0].stack > 0


@pytest.mark.parametrize("itemsize", [4, 8])
@pytest.mark.parametrize(
    "work",
    [policy.RATIONAL, policy.POWERS, policy.SCANS, policy.SELECTED, policy.SELECTED_POWERS],
)
def test_tiles_fit_the_registers(work, itemsize):
    """A thread's part of a row takes at most half of what a multiprocessor has for the thread."""
    for length in (1, 50, 200, 1000, 4000, 16000, 70000):
        tile = policy.tile(length, itemsize, work)
        assert tile.held == (tile.entries >= length)
        share = tile.rows * tile.entries * itemsize / (32 * tile.warps)
        assert share <= 4 * policy.registers(tile.warps) / 2
        assert tile.warps <= policy.MOST_WARPS


@pytest.mark.parametrize(("device", "name"), [key for key in launchers if key[0] == "cuda"])
def test_every_operator_has_a_launcher(device, name):
    found = [getattr(family, name) for family in FAMILIES if hasattr(family, name)]
    schema = getattr(torch.ops.repro, name).default._schema
    assert len(found) == 1
    assert len(inspect.signature(found[0]).parameters) == len(schema.arguments)


class Compiled:
    """Takes the place of compiled kernels; keeps what Triton and they are called with."""

    def __init__(self, monkeypatch):
        self.looked_up, self.launched = [], []
        monkeypatch.setattr(launch, "_compiled", {})
        monkeypatch.setattr(JITFunction, "run", self.look_up)

    def look_up(self, *arguments, grid, warmup, **named):
        self.looked_up.append((grid, arguments, named))
        return self

    def __getitem__(self, grid):
        return lambda *arguments: self.launched.append((grid, arguments))


@pytest.mark.parametrize("order", [0.0, 0.5, 1.0])
def test_a_repeated_launch_asks_triton_for_nothing(order, monkeypatch):
    """Count the Python functions from the table of launchers to the compiled kernel."""
    launcher, compiled, calls = CudaLauncher("entmax", "entmax_forward"), Compiled(monkeypatch), []
    launcher(scores := torch.zeros(64, 25), order)
    sys.setprofile(lambda frame, event, _: calls.append(frame) if event == "call" else None)
    try:
        launcher(scores, order)
    finally:
        sys.setprofile(None)
    assert len(calls) <= 15
    ((looked_up, (rows, *others), named),) = compiled.looked_up
    ((launched, (same, _, *found)),) = compiled.launched
    assert launched == (*looked_up, 1, 1)
    assert rows is same is scores
    kernel = entmax.forward_kernel if order else entmax.softmax_kernel
    constants = [named[name] for name in kernel.arg_names[1 + len(others) :]]
    assert found == [*others[1:], *constants]


def test_what_triton_compiles_anew_for_is_looked_up_again(monkeypatch):
    """Types, alignment, lengths that are one or multiples of 16, and 64 bits for a number."""
    compiled, both = Compiled(monkeypatch), torch.zeros(9, 33)
    calls = [
        *(
            (both[:8, :length].contiguous(), order)
            for length in (25, 1, 16)
            for order in (0.5, 0.3)
        ),
        (both.double(), 0.5),
        (both.flatten()[1:33].view(1, 32), 0.5),
        (both.flatten()[:32].view(1, 32), 0.5),
        (both.flatten()[:32].view(2, 16), 2.0),
        (both.flatten()[:32].view(2, 16), torch.tensor(1.0)),
    ]
    for given in calls:
        entmax.entmax_forward(*given)
    assert (len(compiled.looked_up), compiled.launched) == (len(calls), [])
    for given in calls:
        entmax.entmax_forward(*given)
    assert (len(compiled.looked_up), len(compiled.launched)) == (len(calls), len(calls))

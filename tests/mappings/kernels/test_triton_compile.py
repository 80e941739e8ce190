"""Kernels for CUDA without a device: they compile for sm_90 and keep their values in registers.

``python tests/mappings/kernels/registers.py`` compiles each kernel for all tiles; this is a sample.
"""

import inspect
import sys

import pytest
import torch

pytest.importorskip("triton")

from registers import CALLS, compiled_only
from triton.language import constexpr
from triton.runtime import JITFunction

from repro.mappings.kernels.cuda import bounded, entmax, grouped, norm, policy
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


@pytest.mark.parametrize("order", [0.0, 0.5, 1.0])
def test_a_launch_calls_few_functions(order, monkeypatch):
    """Count the calls from the launcher table to Triton, three of which are Triton's own."""
    launcher, calls = CudaLauncher("entmax", "entmax_forward"), []
    monkeypatch.setattr(JITFunction, "run", lambda *_, **__: None)
    launcher(scores := torch.zeros(64, 25), order)
    sys.setprofile(lambda frame, event, _: calls.append(frame) if event == "call" else None)
    try:
        launcher(scores, order)
    finally:
        sys.setprofile(None)
    assert len(calls) <= 9


@pytest.mark.parametrize(
    "kernel",
    [
        *(entmax.forward_kernel, entmax.backward_kernel, entmax.softmax_kernel),
        *(entmax.loss_kernel, entmax.loss_backward_kernel),
        *(bounded.bounded_kernel, bounded.bounded_backward_kernel),
        *(norm.pnorm_kernel, norm.pnorm_backward_kernel),
        *(grouped.pairwise_kernel, grouped.total_kernel),
    ],
    ids=lambda kernel: kernel.__name__,
)
def test_a_launch_compares_no_constants(kernel):
    """Triton compares those that a kernel takes from a module with what they were, every time."""
    assert kernel.cache_key
    compared = [
        name
        for (name, _), (value, _) in kernel.used_global_vals.items()
        if isinstance(value, constexpr)
    ]
    assert not compared

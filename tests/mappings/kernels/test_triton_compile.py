"""Kernels for CUDA without a device: every launcher's kernels compile to machine code."""

import inspect
import re

import pytest
import torch

triton = pytest.importorskip("triton")

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.runtime import driver  # noqa: E402

from repro.mappings.kernels.cuda import bounded, grouped, launch, norm, policy  # noqa: E402
from repro.mappings.kernels.cuda import entmax as kernels  # noqa: E402
from repro.mappings.kernels.dispatch import launchers  # noqa: E402

HOPPER = GPUTarget("cuda", 90, 32)
LENGTH = 50
FAMILIES = (kernels, bounded, grouped, norm)


class HopperDriver:
    """What the compiler asks a driver, answered without a device."""

    def get_current_target(self):
        return HOPPER

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0


@pytest.fixture
def compiled(monkeypatch):
    """Compiles what launchers would start, and keeps it."""
    found = []

    def compile_only(kernel, grid, arguments, named):
        found.append(kernel.warmup(*arguments, grid=grid, **named))

    monkeypatch.setattr(launch, "start", compile_only)
    before = driver.__dict__.copy()
    driver.set_active(HopperDriver())
    yield found
    driver.__dict__.clear()
    driver.__dict__.update(before)


def rows(dtype=torch.float32, length=LENGTH):
    return torch.zeros(64, length, dtype=dtype)


SCORES, WIDE = rows(), rows(torch.float64)
CLASSES, ORDERS = torch.zeros(64, dtype=torch.long), torch.ones(64, 1)
PLACES, GROUPS = SCORES.to(torch.uint8), SCORES.to(torch.int32)
LONG = rows(length=1 + policy.HELD_BYTES // 4)
"""Longer than what is held."""

CALLS = {
    "sparsemax": lambda: kernels.entmax_forward(SCORES, 1.0),
    "sparsemax of long rows": lambda: kernels.entmax_forward(LONG, 1.0),
    "losses": lambda: kernels.entmax_loss(SCORES, CLASSES, 0.5, -100),
    "orders of rows": lambda: kernels.entmax_forward_rows(SCORES, ORDERS),
    "entmax in double precision": lambda: kernels.entmax_forward(WIDE, 0.3),
    "backward": lambda: kernels.entmax_backward(SCORES, SCORES, 0.5),
    "backward of orders": lambda: kernels.entmax_backward_rows(SCORES, SCORES, ORDERS),
    "backward of losses": lambda: kernels.entmax_loss_backward(SCORES, CLASSES, ORDERS, -100),
    "csoftmax": lambda: bounded.bounded_forward(SCORES, SCORES, 0.0, 0.0),
    "budgets of rows": lambda: bounded.budget_forward_rows(SCORES, ORDERS),
    "backward of bounds": lambda: bounded.bounded_backward(SCORES, PLACES, SCORES, 0.0, True, True),
    "normmax": lambda: norm.normmax_forward(SCORES, 2.0),
    "backward of normmax": lambda: norm.normmax_backward_rows(SCORES, SCORES, ORDERS),
    "sq_pnorm_max": lambda: norm.sq_pnorm_max_forward(SCORES, 1.5),
    "backward of sq_pnorm_max": lambda: norm.sq_pnorm_max_backward(SCORES, SCORES, 1.5),
    "fusedmax": lambda: grouped.fusedmax_forward(SCORES, 0.1),
    "oscarmax": lambda: grouped.oscarmax_forward(SCORES, 0.1),
    "means over pairs": lambda: grouped.grouped_backward(SCORES, GROUPS, SCORES),
    "means in lanes": lambda: grouped.grouped_backward(
        LONG[:2], LONG[:2].to(torch.int32), LONG[:2]
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_compiles(compiled, name):
    CALLS[name]()
    assert compiled
    for kernel in compiled:
        assert ".target sm_90" in kernel.asm["ptx"]
        assert kernel.asm["cubin"]


@pytest.mark.parametrize("name", ["fusedmax", "oscarmax", "means in lanes"])
def test_every_thread_has_a_lane(compiled, name):
    """A lane reads from memory what it wrote itself: no other thread may stand in for it."""
    CALLS[name]()
    layouts = re.findall(r"#ttg\.\w+<[^>]*>", compiled[0].asm["ttgir"])
    assert layouts
    for layout in layouts:
        assert "sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1]" in layout


@pytest.mark.parametrize(("device", "name"), [key for key in launchers if key[0] == "cuda"])
def test_every_operator_has_a_launcher(device, name):
    found = [getattr(family, name) for family in FAMILIES if hasattr(family, name)]
    schema = getattr(torch.ops.repro, name).default._schema
    assert len(found) == 1
    assert len(inspect.signature(found[0]).parameters) == len(schema.arguments)

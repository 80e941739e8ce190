"""PyTorch takes over where numba is told not to compile."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys, torch
from repro.losses import EntmaxLoss, FenchelYoungLoss
from repro.mappings import MAPPINGS
from repro.mappings.kernels import dispatch
for spec in MAPPINGS.values():
    scores = torch.tensor([[0.4, 0.1, -0.3]], requires_grad=True)
    bounds = [torch.full((1, 3), 0.7)] if spec.bounded else []
    probs = spec.function(scores, *bounds)
    (probs * torch.tensor([1.0, 2.0, 4.0])).sum().backward()
    assert abs(probs.sum().item() - 1) < 1e-6 and scores.grad.isfinite().all(), spec.name
    if not spec.bounded:
        FenchelYoungLoss(spec.module())(scores, torch.tensor([1])).backward()
EntmaxLoss()(scores, torch.tensor([1])).backward()
kernels = "repro.mappings.kernels.cpu."
print(dispatch.has_kernel(scores), any(name.startswith(kernels) for name in sys.modules))
"""


@pytest.mark.parametrize(("value", "kernels"), [("1", False), ("0", True)])
def test_compilation_switched_off(value, kernels):
    if kernels:
        pytest.importorskip("numba")
    command = [sys.executable, "-W", "error", "-c", PROGRAM]
    environment = os.environ | {"NUMBA_DISABLE_JIT": value}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(kernels)] * 2

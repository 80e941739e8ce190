"""Mappings on a CUDA device, by Triton's kernels, against the processor in double precision."""

import pytest
import torch
from hard_rows import hard_rows
from tolerances import ADVERSARIAL, GRADIENT, LOSS, assert_close

from repro.losses import EntmaxLoss, SparsemaxLoss
from repro.mappings import (
    budget,
    csoftmax,
    csparsemax,
    entmax,
    fusedmax,
    oscarmax,
    sparsemax,
    sq_pnorm_max,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
pytest.importorskip("triton")

MAPPINGS = {
    "sparsemax": sparsemax,
    "entmax15": lambda z: entmax(z, 1.5),
    "entmax11": lambda z: entmax(z, 1.1),
    "entmax25": lambda z: entmax(z, 2.5),
    "csoftmax": lambda z: csoftmax(z, torch.full_like(z, 3 / z.size(-1))),
    "csparsemax": lambda z: csparsemax(z, torch.full_like(z, 3 / z.size(-1))),
    "budget": lambda z: budget(z, 0.5 * z.size(-1)),
    "sq_pnorm_max": sq_pnorm_max,
    "fusedmax": fusedmax,
    "oscarmax": oscarmax,
}
SIZES = [1, 2, 50, 63, 128, 1000, 5000, 20000, 70000]
"""Several rows in a program, one row, and rows in chunks."""


def scores_of(size, dtype):
    rows = [hard_rows(size) * 3] if size <= 5000 else []
    drawn = torch.randn(37, size, generator=torch.Generator().manual_seed(size)).double()
    drawn[0, 0], drawn[1, size // 2] = -torch.inf, torch.nan
    drawn[2], drawn[3, -1] = -torch.inf, torch.inf
    drawn[4] += 1000
    return torch.cat([2 * drawn, *rows]).to(dtype)


def both(mapping, scores):
    """Result and gradient on the processor in double precision, and on the device."""
    found = []
    for place in (scores.double(), scores.cuda()):
        leaf = place.detach().requires_grad_()
        probs = mapping(leaf)
        weights = torch.linspace(-1, 1, scores.size(-1), dtype=leaf.dtype, device=leaf.device)
        found += [probs.detach().cpu(), torch.autograd.grad((probs * weights).sum(), leaf)[0].cpu()]
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", MAPPINGS)
def test_mapping(name, size, dtype):
    scores = scores_of(size, dtype)
    probs, grads, found, found_grads = both(MAPPINGS[name], scores)
    assert_close(found, probs, ADVERSARIAL)
    # Where rounding decides whether an entry at zero is in the support, derivatives differ.
    same = ((found > 0) == (probs > 0)).all(-1) & ~probs.isnan().any(-1)
    bound = 1e-4 if dtype == torch.float32 else GRADIENT[dtype]
    torch.testing.assert_close(
        found_grads[same].double(), grads[same].double(), rtol=bound, atol=bound
    )


@pytest.mark.parametrize("size", [50, 32000])
@pytest.mark.parametrize("mapping", [entmax])
def test_parameter_of_each_row(mapping, size):
    scores = scores_of(size, torch.float32)[4:30]
    found = []
    for place in (scores.double(), scores.cuda()):
        alpha = torch.linspace(1.1, 2.6, 26, dtype=place.dtype, device=place.device)[:, None]
        alpha.requires_grad_()
        probs = mapping(place, alpha)
        weights = torch.linspace(-1, 1, size, dtype=place.dtype, device=place.device)
        grad = torch.autograd.grad((probs * weights).sum(), alpha)[0]
        found.append((probs.detach().cpu(), grad.cpu()))
    assert_close(found[1][0], found[0][0], ADVERSARIAL)
    torch.testing.assert_close(found[1][1].double(), found[0][1], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "loss", [SparsemaxLoss(reduction="none"), EntmaxLoss(1.3, reduction="none")]
)
@pytest.mark.parametrize("size", [50, 32000])
def test_loss(loss, size):
    scores = scores_of(size, torch.float32)[4:30]
    target = torch.arange(26)
    found = []
    for place in (scores.double(), scores.cuda()):
        leaf = place.detach().requires_grad_()
        losses = loss(leaf, target.to(leaf.device))
        grad = torch.autograd.grad(losses.sum(), leaf)[0]
        found.append((losses.detach().cpu(), grad.cpu()))
    assert_close(found[1][0], found[0][0], LOSS)
    assert_close(found[1][1], found[0][1], GRADIENT)


@pytest.mark.parametrize("name", MAPPINGS)
def test_runs_agree_to_the_last_bit(name):
    scores = scores_of(300, torch.float32).cuda()
    first, second = (MAPPINGS[name](scores) for _ in range(2))
    torch.testing.assert_close(first, second, rtol=0, atol=0, equal_nan=True)
    alone = MAPPINGS[name](scores[7:8])
    torch.testing.assert_close(first[7:8], alone, rtol=0, atol=0)

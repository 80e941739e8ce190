"""The papers' own algorithms against the exact mappings, in values and gradients."""

import pickle

import pytest
import torch

from repro.losses import FenchelYoungLoss
from repro.losses.fenchel_young import fused_r
from repro.mappings import Entmax, SqPnormMax
from repro.tasks.published_mappings import FistaPnormMax, PublishedEntmax

SOLVERS = [("sort", 1.5), ("sort", 2.0), *[("bisection", a) for a in (1.1, 1.5, 2.0, 2.25)]]


def rows(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(6, 30, dtype=dtype, generator=generator) * 2
    scores[1] = 0.0
    scores[2, ::2] = scores[2, 1::2]
    scores[3] *= 1e-3
    scores[4, 5:] = -torch.inf
    scores[5] = -torch.inf
    return scores


@pytest.mark.parametrize(("solver", "alpha"), SOLVERS)
def test_values_and_gradients_are_those_of_the_exact_mapping(solver, alpha):
    grad = torch.randn(6, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found, moved = [], []
    for mapping in (PublishedEntmax(alpha, solver), Entmax(alpha)):
        scores = rows().requires_grad_()
        found.append(mapping(scores))
        moved.append(torch.autograd.grad(found[-1], scores, grad)[0])
    torch.testing.assert_close(found[0], found[1], atol=1e-11, rtol=0)
    torch.testing.assert_close(moved[0], moved[1], atol=1e-7, rtol=0)


@pytest.mark.parametrize(("solver", "alpha"), SOLVERS)
def test_axis_and_mask(solver, alpha):
    scores, mask = torch.randn(4, 5, 3), torch.rand(4, 5, 3) > 0.3
    found = PublishedEntmax(alpha, solver)(scores, mask=mask, dim=1)
    torch.testing.assert_close(found, Entmax(alpha)(scores, mask=mask, dim=1), atol=2e-6, rtol=0)
    assert (found[~mask] == 0).all()


def test_no_kernel_replaces_the_published_algorithm():
    """Else a timing of bisection would be that of the kernel."""
    assert fused_r(PublishedEntmax(1.5)) is None
    scores = rows()[:4].requires_grad_()
    target = torch.tensor([0, 1, 2, 3])
    ours, exact = (
        FenchelYoungLoss(mapping)(scores, target) for mapping in (PublishedEntmax(1.5), Entmax(1.5))
    )
    torch.testing.assert_close(ours, exact)


@pytest.mark.parametrize(
    ("alpha", "solver"), [(1.25, "sort"), (1.0, "bisection"), (0.5, "bisection"), (1.5, "newton")]
)
def test_what_cannot_be_solved_is_refused(alpha, solver):
    with pytest.raises(ValueError, match=r"alpha|solver"):
        PublishedEntmax(alpha, solver)


@pytest.mark.parametrize("p", [1.2, 1.5, 2.0])
@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_fista_comes_as_close_as_its_tolerance_says(p, gamma):
    scores = rows()[:5]
    exact = SqPnormMax(p, gamma)(scores)
    rough = FistaPnormMax(p, gamma)(scores)
    close = FistaPnormMax(p, gamma, tolerance=1e-5)(scores)
    torch.testing.assert_close(close, exact, atol=1e-3, rtol=0)
    assert (rough - exact).abs().max() < 0.1
    torch.testing.assert_close(rough.sum(-1), torch.ones(5, dtype=torch.float64))


@pytest.mark.parametrize("gamma", [1.0, 3.0])
@pytest.mark.parametrize("p", [1.5, 2.0])
def test_fista_gradients_are_those_of_the_closed_form(p, gamma):
    grad = torch.randn(5, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    moved = []
    for mapping in (FistaPnormMax(p, gamma, tolerance=1e-6), SqPnormMax(p, gamma)):
        scores = rows()[:5].requires_grad_()
        moved.append(torch.autograd.grad(mapping(scores), scores, grad)[0])
    torch.testing.assert_close(moved[0], moved[1], atol=1e-2, rtol=0)


@pytest.mark.parametrize("p", [1.2, 1.5])
def test_fista_stopped_early_has_the_derivative_of_its_own_point(p):
    """Entries down to 1e-42 are what it may leave; by finite differences of Eq. 8's inverse."""
    generator = torch.Generator().manual_seed(3)
    probs = torch.rand(8, 12, dtype=torch.float64, generator=generator)
    probs[:, 0] = torch.tensor([0, 1e-42, 1e-38, 1e-30, 1e-20, 1e-12, 5e-9, 1e-6])
    probs = (probs / probs.sum(-1, keepdim=True)).float()
    vector = torch.randn(8, 12, generator=generator)
    found = FistaPnormMax(p, gamma=2.0)._jacobian(probs, vector)
    for row, product, right in zip(probs.double(), found, vector.double(), strict=True):
        inside = row > 0
        kept, size = row[inside], int(inside.sum())
        norm = kept.pow(p).sum().pow(1 / p)
        powers = kept.pow(p - 1)
        inverse = kept.pow(2 - p).diag() * norm.pow(p - 2) / (p - 1)
        # Woodbury's formula in float64 with the rank-one term of the Hessian.
        rank_one = (2 - p) * norm.pow(2 - 2 * p)
        through = inverse @ powers
        inverse -= torch.outer(through, through) / (1 / rank_one + powers @ through)
        ones = inverse @ torch.ones(size, dtype=torch.float64)
        expected = inverse @ right[inside] - ones * (ones @ right[inside]) / ones.sum()
        assert (product.double()[inside] - expected / 2).abs().max() < 2e-6
        assert (product[~inside] == 0).all()


def test_fista_is_pickled_and_shows_its_tolerance():
    module = FistaPnormMax(tolerance=1e-3)
    scores = torch.randn(3, 4)
    assert torch.equal(pickle.loads(pickle.dumps(module))(scores), module(scores))
    assert "tolerance=0.001" in repr(module)

"""Solutions of the device's solver against those of the compiled one, on the CPU."""

import pytest
import torch
from torch import Tensor

from repro.structures import InfeasibleError, LinearChain, sparsemap
from repro.structures.active_set import Solution
from repro.structures.device import solve_on_device, solves

CHAINS = LinearChain()


def on_device(
    unary: Tensor,
    pairs: Tensor | None = None,
    lengths: Tensor | None = None,
    tol: float = 1e-10,
    rounds: int = 500,
) -> Solution:
    problem = CHAINS.problem(unary, pairs, lengths)
    selection, marginals, weights = solve_on_device(CHAINS, problem, unary, pairs, tol, rounds)
    return Solution(CHAINS, marginals, weights, selection, pairs)


def random_scores(
    scale: float, batch: int = 10, positions: int = 8, tags: int = 5
) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(3)
    unary = torch.randn(batch, positions, tags, dtype=torch.float64) * scale
    pairs = torch.randn(batch, positions - 1, tags, tags, dtype=torch.float64) * scale
    lengths = torch.randint(0, positions + 1, (batch,))
    lengths[0] = positions
    return unary.requires_grad_(), pairs.requires_grad_(), lengths


@pytest.mark.parametrize("scale", [0.05, 0.5, 5.0, 1e4])
def test_solutions_and_gradients_are_those_of_the_compiled_solver(scale: float) -> None:
    unary, pairs, lengths = random_scores(scale)
    found, expected = (
        on_device(unary, pairs, lengths),
        sparsemap(CHAINS, unary, pairs, lengths=lengths, tol=1e-10),
    )
    assert found.converged.all()
    torch.testing.assert_close(found.marginals, expected.marginals, rtol=0, atol=1e-7)
    torch.testing.assert_close(found.additional, expected.additional, rtol=0, atol=1e-7)
    torch.testing.assert_close(found.weights.sum(-1), torch.ones(10).double())
    assert found.counts.tolist() == (found.weights > 0).sum(-1).tolist()
    directions = torch.randn_like(unary), torch.randn_like(pairs)
    grads = []
    for solution in (found, expected):
        value = (solution.marginals * directions[0]).sum()
        value = value + (solution.additional * directions[1]).sum()
        grads.append(torch.autograd.grad(value, (unary, pairs)))
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-7)
        assert one.isfinite().all()


def test_more_sequences_than_slots_at_the_start() -> None:
    unary, pairs, _ = random_scores(0.02, batch=3, positions=10, tags=6)
    found = on_device(unary.detach(), pairs.detach())
    expected = sparsemap(CHAINS, unary.detach(), pairs.detach(), tol=1e-10)
    assert found.counts.max() > 12
    torch.testing.assert_close(found.marginals, expected.marginals, rtol=0, atol=1e-7)


def test_shared_transitions_and_none() -> None:
    unary, pairs, lengths = random_scores(0.5)
    shared = pairs[0].detach().requires_grad_()
    for extra in (shared, None):
        found = on_device(unary, extra, lengths)
        expected = sparsemap(CHAINS, unary, extra, lengths=lengths, tol=1e-10)
        torch.testing.assert_close(found.marginals, expected.marginals, rtol=0, atol=1e-7)
    slopes = [
        torch.autograd.grad(solution.marginals[:, 0, 0].sum(), shared)[0]
        for solution in (
            on_device(unary, shared, lengths),
            sparsemap(CHAINS, unary, shared, lengths=lengths, tol=1e-10),
        )
    ]
    torch.testing.assert_close(*slopes, rtol=0, atol=1e-7)


def test_single_precision_and_padding_that_is_not_a_number() -> None:
    unary, pairs, _ = (one.detach().float() for one in random_scores(1.0))
    lengths = torch.tensor([8, 3] * 5)
    clean = on_device(unary, pairs, lengths, tol=1e-6)
    assert clean.marginals.dtype == torch.float32
    unary[1, 3:], pairs[1, 2:] = torch.nan, torch.nan
    torch.testing.assert_close(on_device(unary, pairs, lengths, 1e-6).marginals, clean.marginals)
    assert (clean.marginals[1, 3:] == 0).all()


def test_bad_scores_are_refused() -> None:
    unary, pairs, _ = (one.detach() for one in random_scores(1.0))
    forbidden = unary.clone()
    forbidden[2, 4] = -torch.inf
    with pytest.raises(InfeasibleError, match="instance 2"):
        on_device(forbidden, pairs)
    unary[3, 1, 1] = torch.nan
    with pytest.raises(ValueError, match="instance 3: a score is NaN"):
        on_device(unary, pairs)
    pairs[1, 0, 0, 0] = torch.inf
    with pytest.raises(ValueError, match="instance 1: a score is NaN"):
        on_device(unary.nan_to_num(), pairs)


def test_stopping_early_is_reported() -> None:
    unary, pairs, _ = (one.detach() for one in random_scores(0.05))
    found = on_device(unary, pairs, rounds=2)
    assert not found.converged.all()
    assert (found.iterations == 2).all()


def test_tensors_on_the_cpu_are_left_to_the_compiled_solver() -> None:
    unary = torch.randn(2, 3, 2)
    assert not solves(CHAINS.problem(unary), unary)

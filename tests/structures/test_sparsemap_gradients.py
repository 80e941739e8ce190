"""Derivatives of SparseMAP (Niculae et al. 2018, Proposition 1)."""

import pytest
import torch
from every_structure import CASES, Case
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from repro.structures import LinearChain, Matching, sparsemap


def marginals_of(case: Case, unary: Tensor, additional: Tensor | None = None) -> tuple[Tensor, ...]:
    solution = sparsemap(case.structure, unary, additional)
    if solution.additional is None:
        return (solution.marginals,)
    return solution.marginals, solution.additional


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", [0, 1])
def test_finite_differences(name, seed):
    case = CASES[name]
    scores = [s.requires_grad_() for s in case.scores(2, seed) if s is not None]
    assert gradcheck(lambda *s: marginals_of(case, *s), scores)
    assert gradgradcheck(lambda *s: marginals_of(case, *s), scores)


def test_shared_transitions_get_the_sum():
    unary, shared = torch.randn(3, 4, 3).double(), torch.randn(3, 3, 3).double().requires_grad_()
    direction = torch.randn(3, 4, 3).double()
    (sparsemap(LinearChain(), unary, shared).marginals * direction).sum().backward()
    own = shared.detach().expand(3, 3, 3, 3).clone().requires_grad_()
    (sparsemap(LinearChain(), unary, own).marginals * direction).sum().backward()
    torch.testing.assert_close(shared.grad, own.grad.sum(0))


@pytest.mark.parametrize("name", CASES)
def test_jacobian_against_the_proposition(name):
    """``M D Mᵀ`` formed from the selected structures in dense arithmetic."""
    case = CASES[name]
    unary, additional = case.scores(1)
    unary.requires_grad_()
    solution = sparsemap(case.structure, unary, additional)
    chosen = [case.structure.indicator(v, unary).flatten() for v in solution.structures.unbind(1)]
    matrix = torch.stack(chosen, dim=1).detach()
    inverse = torch.linalg.inv(matrix.T @ matrix + 1.0)
    ones = inverse.sum(1)
    response = inverse - torch.outer(ones, ones) / ones.sum()
    direction = torch.randn(unary.shape, dtype=torch.float64)
    (found,) = torch.autograd.grad(solution.marginals, unary, direction)
    expected = matrix @ (response @ (matrix.T @ direction.flatten()))
    torch.testing.assert_close(found.flatten(), expected, rtol=0, atol=1e-11)


def test_weights_have_the_derivative_of_the_selected_structures():
    unary = torch.randn(1, 6, 6, dtype=torch.float64, requires_grad=True)
    solution = sparsemap(Matching(), unary)
    direction = torch.randn(solution.weights.shape, dtype=torch.float64)
    (grad,) = torch.autograd.grad(solution.weights, unary, direction)
    step = 1e-6 * torch.randn(unary.shape, dtype=torch.float64)
    moved = sparsemap(Matching(), unary.detach() + step, start=solution)
    order = [solution.structures[0].tolist().index(v) for v in moved.structures[0].tolist()]
    change = moved.weights[0] - solution.weights[0, order]
    expected = (change * direction[0, order]).sum().item()
    assert sorted(order) == list(range(len(order)))
    assert (grad * step).sum().item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_single_precision_agrees(name):
    case = CASES[name]
    unary, additional = case.scores(4)
    direction = torch.randn(unary.shape, dtype=torch.float64)
    grads = []
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        scores = unary.to(torch.bfloat16).to(dtype).requires_grad_()
        more = None if additional is None else additional.to(torch.bfloat16).to(dtype)
        marginals = sparsemap(case.structure, scores, more).marginals
        assert marginals.dtype == dtype
        grads.append(torch.autograd.grad(marginals, scores, direction.to(dtype))[0].double())
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(grads[2], grads[1], rtol=0.05, atol=0.05)


def test_masked_and_padded_parts_have_no_gradient():
    unary = torch.randn(2, 5, 4, requires_grad=True)
    mask = torch.ones(2, 5, 4, dtype=torch.bool)
    mask[0, 2, 1:] = False
    solution = sparsemap(LinearChain(), unary, lengths=torch.tensor([5, 3]), mask=mask)
    (solution.marginals * torch.randn(2, 5, 4)).sum().backward()
    assert (unary.grad[~mask] == 0).all()
    assert unary.grad[0, 2, 0].abs() < 1e-7
    assert (unary.grad[1, 3:] == 0).all()
    assert unary.grad.abs().sum() > 0


def test_gradient_of_some_inputs_only():
    unary = torch.randn(2, 4, 3)
    transitions = torch.randn(3, 3, 3, requires_grad=True)
    solution = sparsemap(LinearChain(), unary, transitions)
    solution.marginals.square().sum().backward()
    assert transitions.grad is not None
    assert not sparsemap(LinearChain(), unary).marginals.requires_grad

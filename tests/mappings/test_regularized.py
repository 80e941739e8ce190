"""The general mapping: against closed forms, a program, finite differences; what it refuses."""

import math
import warnings

import pytest
import torch
from drawn import draw, leaf
from tolerances import ABSOLUTE, LOSS, SUM, assert_close
from torch.autograd import gradcheck
from torch.func import jacrev, vmap

from repro.mappings import (
    ConvergenceWarning,
    ProbabilityMap,
    regularized,
    softmax,
    sparsemax,
    sq_pnorm_max,
)
from repro.mappings._norm import jacobian_product
from repro.mappings.regularized import Problem, conjugate_gradients

INF = math.inf
SOLVED = {torch.float64: 1e-9, torch.float32: 5e-6}
"""Error in ``p`` at the tolerances below: at most the residual over the strong convexity."""


def euclidean(probs):
    return probs.square().sum(-1) / 2


def negative_entropy(probs):
    return torch.xlogy(probs, probs).sum(-1)


def squared_norm(probs):
    return probs.pow(1.5).sum(-1).pow(4 / 3) / 2


def identity(probs):
    return probs


FACTOR = draw(6, 6, seed=1)
MATRIX = FACTOR @ FACTOR.T / 6 + 0.2 * torch.eye(6, dtype=torch.float64)


def quadratic(probs):
    return ((probs @ MATRIX) * probs).sum(-1) / 2


CLOSED = {
    "sparsemax": (euclidean, sparsemax),
    "softmax": (negative_entropy, softmax),
    "sq_pnorm_max": (squared_norm, sq_pnorm_max),
}


@pytest.mark.parametrize("gamma", [0.5, 3.0])
@pytest.mark.parametrize(("omega", "closed"), CLOSED.values(), ids=CLOSED)
def test_closed_forms(omega, closed, gamma):
    scores = draw(20, 8, seed=2)
    probs = regularized(omega, gamma=gamma, tolerance=1e-10)(scores)
    assert_close(probs, closed(scores, gamma=gamma), SOLVED)
    if closed is not softmax:
        assert torch.equal(probs > 1e-12, closed(scores, gamma=gamma) > 1e-12)
        assert (probs == 0).any()


@pytest.mark.parametrize(("omega", "closed"), CLOSED.values(), ids=CLOSED)
def test_derivatives_of_closed_forms(omega, closed):
    scores = draw(5, 6, seed=3)
    mapping = regularized(omega, tolerance=1e-12)
    actual = vmap(jacrev(mapping))(scores)
    assert_close(actual, vmap(jacrev(closed))(scores), {torch.float64: 1e-8})


def test_the_residual_is_that_of_the_fixed_point():
    """Eq. 13: ``p = P(p - ∇f(p))`` up to the tolerance, no matter how loose."""
    scores = draw(30, 6, seed=5) * 2
    for tolerance in (1e-2, 1e-6, 1e-10):
        probs = regularized(quadratic, tolerance=tolerance)(scores)
        fixed = sparsemax(probs - probs @ MATRIX + scores)
        assert (fixed - probs).abs().max() <= tolerance


@pytest.mark.parametrize("dim", [-2, 2])
def test_gradients_by_differences(dim):
    scores = leaf(2, 3, 2, seed=6)
    mapping = regularized(squared_norm, tolerance=1e-12)
    assert gradcheck(lambda s: mapping(s, dim=dim), scores, atol=1e-5)


def test_a_quadratic_by_differences_and_by_proposition_one():
    gamma = 0.4
    scores = leaf(2, 6, seed=7)
    mapping = regularized(quadratic, gamma=gamma, tolerance=1e-12)
    assert gradcheck(mapping, scores, atol=1e-5)
    for row in scores.detach():
        support = (mapping(row) > 0).double()
        projection = support.diag() - torch.outer(support, support) / support.sum()
        system = torch.eye(6) + projection @ (gamma * MATRIX - torch.eye(6))
        expected = torch.linalg.solve(system, projection)
        assert_close(jacrev(mapping)(row), expected, {torch.float64: 1e-9})


def test_own_gradient_and_hessian_are_used():
    """With both given, ``omega`` is not asked; with the gradient alone, it is differentiated."""

    def never(probs):
        raise AssertionError("not needed")

    def product(probs, vector):
        return vector

    scores = draw(4, 5, seed=8)
    expected = vmap(jacrev(sparsemax))(scores)
    for hvp in (product, None):
        mapping = regularized(never, grad=identity, hvp=hvp, tolerance=1e-10)
        assert_close(mapping(scores), sparsemax(scores), SOLVED)
        kept = scores.clone().requires_grad_()
        rows = [torch.autograd.grad(mapping(kept)[:, k].sum(), kept)[0] for k in range(5)]
        assert_close(torch.stack(rows, 1), expected, SOLVED)


def dense_product(probs, vector, hessian):
    """``J v`` by the KKT system on the support, in float64."""
    inside = probs > 0
    size = int(inside.sum())
    system = torch.ones(size + 1, size + 1, dtype=torch.float64)
    system[:size, :size] = hessian[inside][:, inside]
    system[size, size] = 0
    kept = vector.double()[inside]
    right = torch.cat((kept - kept.mean(), kept.new_zeros(1)))
    product = torch.zeros(len(probs), dtype=torch.float64)
    product[inside] = torch.linalg.solve(system, right)[:size]
    return product


def incoming_gradients(size):
    """Constant, almost constant, constant up to rounding, large, small."""
    drawn = draw(size, seed=21)
    return [torch.full_like(drawn, 0.1), 1e-3 * drawn - 1.47, 3e-7 * drawn - 1.47, 1e30 * drawn,
            1e-30 * drawn]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("omega", [euclidean, negative_entropy])
def test_gradients_at_any_incoming_gradient(omega, dtype):
    """Ties (equal scores) at most sizes, distinct scores at others, against a dense solution."""
    mapping = regularized(omega, gamma=0.7, tolerance=1e-4)
    for size in (1, 2, 3, 8, 12, 13, 31, 40):
        scores = torch.zeros(size, dtype=dtype) if size % 4 else draw(size, seed=size).to(dtype)
        scores.requires_grad_()
        probs = mapping(scores)
        wide = probs.detach().double()
        inverse = torch.ones_like(wide) if omega is euclidean else 1 / wide
        for incoming in incoming_gradients(size):
            vector = incoming.to(dtype)
            (grad,) = torch.autograd.grad(probs, scores, vector, retain_graph=True)
            expected = dense_product(wide, vector, 0.7 * inverse.diag())
            error = (grad - expected).abs().max() / vector.double().abs().max()
            assert error <= 32 * torch.finfo(dtype).eps


@pytest.mark.parametrize("size", [11, 14])
def test_a_constant_gradient_moves_nothing(size):
    scores = torch.zeros(size, requires_grad=True)
    regularized(euclidean)(scores).mean().backward()
    assert torch.equal(scores.grad, torch.zeros(size))


def test_a_nan_gradient_stays_nan_in_its_row():
    scores = torch.zeros(3, 4, requires_grad=True)
    incoming = torch.ones(3, 4).index_fill(0, torch.tensor([1]), math.nan)
    incoming[2, 0] = INF
    (grad,) = torch.autograd.grad(regularized(euclidean)(scores), scores, incoming)
    assert torch.equal(grad[0], torch.zeros(4))
    assert grad[1:].isnan().all()


def test_masks_equal_removal_in_value_and_gradient():
    mask = torch.tensor([True, False, True, True, False])
    scores = leaf(4, 5, seed=9)
    weights = draw(4, 5, seed=10)
    for omega in (squared_norm, negative_entropy):
        mapping = regularized(omega, tolerance=1e-11)
        probs = mapping(scores, mask=mask)
        (grad,) = torch.autograd.grad((probs * weights).sum(), scores)
        kept = scores[:, mask].detach().requires_grad_()
        alone = mapping(kept)
        (expected,) = torch.autograd.grad((alone * weights[:, mask]).sum(), kept)
        assert_close(probs[:, mask], alone, SOLVED)
        assert_close(grad[:, mask], expected, {torch.float64: 1e-8})
        for empty in (probs[:, ~mask], grad[:, ~mask]):
            assert torch.equal(empty, torch.zeros_like(empty))


def test_bad_rows_keep_to_themselves():
    good = torch.tensor([0.3, -0.2, 0.1])
    rows = [[-INF] * 3, [INF, 0.0, INF], [math.nan, 0.0, 1.0], [1e8, 0.0, -1e30], good.tolist()]
    mapping = regularized(squared_norm)
    scores = torch.tensor(rows).requires_grad_()
    probs = mapping(scores)
    assert torch.equal(probs[0], torch.zeros(3))
    assert_close(probs[1], torch.tensor([0.5, 0.0, 0.5]), SOLVED)
    assert probs[2].isnan().all()
    assert torch.equal(probs[3], torch.tensor([1.0, 0.0, 0.0]))
    assert torch.equal(probs[4], mapping(good))
    (grad,) = torch.autograd.grad(probs[[0, 1, 3, 4]].square().sum(), scores)
    assert grad[[0, 1, 3, 4]].isfinite().all()


def test_types_shapes_and_shifts():
    mapping = regularized(squared_norm)
    scores = draw(3, 8, seed=11)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        probs = mapping(scores.to(dtype))
        assert probs.dtype == dtype
        assert torch.equal(probs, mapping(scores.to(dtype).float()).to(dtype))
        assert_close(probs.sum(-1), torch.ones(3), SUM)
    assert_close(mapping(scores.float()), sq_pnorm_max(scores.float()), SOLVED)
    multiples = (scores * 64).round() / 64
    assert torch.equal(mapping(multiples + 1e4), mapping(multiples))
    assert_close(mapping(scores.t(), dim=0).t(), mapping(scores), ABSOLUTE)
    assert mapping(torch.empty(2, 0)).shape == (2, 0)
    assert torch.equal(mapping(torch.randn(2, 1)), torch.ones(2, 1))
    with pytest.raises(TypeError, match="floating point"):
        mapping(torch.ones(3, dtype=torch.long))


def test_omega_and_value():
    mapping = regularized(quadratic, gamma=2.0, tolerance=1e-12)
    assert isinstance(mapping, ProbabilityMap)
    scores = leaf(3, 6, seed=12)
    probs = mapping(scores)
    assert_close(mapping.omega(probs), 2 * quadratic(probs), LOSS)
    assert_close(mapping.value(scores), (probs * scores).sum(-1) - 2 * quadratic(probs), LOSS)
    (grad,) = torch.autograd.grad(mapping.value(scores).sum(), scores)
    assert torch.equal(grad, probs)


@pytest.mark.parametrize("iterations", [1, 5, 30])
def test_a_solver_that_is_stopped_returns_its_best_distribution(iterations):
    scores = draw(20, 6, seed=13) * 3
    mapping = regularized(negative_entropy, tolerance=1e-15, max_iterations=iterations)
    with pytest.warns(ConvergenceWarning):
        probs = mapping(scores)
    assert (probs >= 0).all()
    assert_close(probs.sum(-1), torch.ones(20, dtype=torch.float64), SUM)
    if iterations > 1:
        uniform = torch.full_like(probs, 1 / 6)
        assert (probs - softmax(scores)).norm() < (uniform - softmax(scores)).norm()


def test_a_nan_row_and_one_that_does_not_converge():
    scores = torch.tensor([[math.nan, 0.0], [0.3, 0.1]])
    with pytest.warns(ConvergenceWarning):
        probs = regularized(negative_entropy, tolerance=1e-15, max_iterations=3)(scores)
    assert probs[0].isnan().all()
    assert_close(probs[1].sum(), torch.tensor(1.0), SUM)


def hard_rows(rows, size, seed):
    """Distributions in float32 with one entry of 1e-8, as a solver leaves that is stopped early."""
    probs = draw(rows, size, seed=seed).exp()
    probs[:, 0] = 0.0
    probs = probs / probs.sum(-1, keepdim=True)
    return probs.index_fill(1, torch.tensor([0]), 1e-8).float()


@pytest.mark.parametrize("matrix", [None, torch.eye(12)])
def test_an_entry_close_to_zero_does_not_stop_a_gradient(matrix):
    """The diagonal of the Hessian is 1e4 times as large there as elsewhere.

    With a matrix in float32, ``Ω`` cannot be asked in float64; a warning may follow, no error.
    """

    def omega(probs):
        return squared_norm(probs if matrix is None else probs @ matrix)

    problem = Problem(omega, 1.0, None, None, 1e-2)
    probs, vector = hard_rows(200, 12, seed=30), draw(200, 12, seed=31).float()
    with warnings.catch_warnings():
        warnings.simplefilter("error" if matrix is None else "ignore")
        product = conjugate_gradients(problem, probs, vector)
    assert product.dtype == torch.float32
    expected = jacobian_product(probs.double(), vector.double(), 1.5)
    error = (product - expected).abs().amax(-1) / expected.abs().amax(-1)
    assert error.max() < (1e-6 if matrix is None else 1e-2)


def test_conjugate_gradients_that_do_not_converge_keep_their_best_iterate():
    """A product that is no symmetric matrix's: the residual rises again after a few iterations."""
    slow = Problem(euclidean, 1.0, None, lambda probs, vector: vector + vector.cumsum(-1), 1e-6)
    probs, vector = torch.full((3, 6), 1 / 6), draw(3, 6, seed=17).float()
    with pytest.warns(ConvergenceWarning):
        product = conjugate_gradients(slow, probs, vector)
    left = vector - product - product.cumsum(-1)
    left, right = left - left.mean(-1, keepdim=True), vector - vector.mean(-1, keepdim=True)
    assert (left.norm(dim=-1) <= right.norm(dim=-1)).all()


@pytest.mark.parametrize("curvature", [-1.0, 0.0])
def test_a_regularizer_that_is_not_convex_is_an_error(curvature):
    flat = regularized(euclidean, hvp=lambda probs, vector: curvature * vector)
    scores = torch.zeros(2, 6, requires_grad=True)
    with pytest.raises(RuntimeError, match="strongly convex"):
        (flat(scores) * torch.arange(6)).sum().backward()


def test_a_second_derivative_is_refused():
    scores = leaf(2, 4, seed=14)
    probs = regularized(squared_norm)(scores)
    (first,) = torch.autograd.grad(probs.square().sum(), scores, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        first.square().sum().backward()


def total(probs):
    return euclidean(probs).sum()


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        (regularized(identity), r"omega must .* shape \(2,\), got \(2, 4\)"),
        (regularized(total), r"omega must .* shape \(2,\), got \(\)"),
        (regularized(lambda probs: 1.0), r"omega must .* shape \(2,\), got float"),
        (regularized(euclidean, grad=euclidean), r"grad must .* shape \(2, 4\), got \(2,\)"),
    ],
)
def test_shapes_of_the_regularizer_are_checked(mapping, message):
    with pytest.raises(ValueError, match=message):
        mapping(draw(2, 4, seed=15))


def test_the_shape_of_the_hessian_product_is_checked():
    probs = regularized(euclidean, hvp=lambda probs, vector: vector.sum(-1))(leaf(2, 4, seed=15))
    with pytest.raises(ValueError, match=r"hvp must .* shape \(2, 4\), got \(2,\)"):
        probs.square().sum().backward()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gamma": 0.0}, "gamma must be positive"),
        ({"tolerance": 0.0}, "tolerance must be positive"),
        ({"tolerance": math.nan}, "tolerance must be positive"),
        ({"max_iterations": 0}, "max_iterations must be at least 1"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        regularized(euclidean, **settings)

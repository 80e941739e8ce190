"""Mappings of user-defined regularizers: FISTA, differentiated implicitly by Proposition 1.

Niculae & Blondel (2017), §3.1 and Appendix B.4.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, inf
from torch.autograd import Function

from repro.mappings._arguments import (
    allowed_scores,
    center,
    in_double,
    integer,
    is_concrete,
    kind,
    positive,
)
from repro.mappings._autograd import batch_first
from repro.mappings._entmax import sparsemax
from repro.mappings.modules import ConvergenceWarning, ProbabilityMap

Regularizer = Callable[[Tensor], Tensor]
HessianProduct = Callable[[Tensor, Tensor], Tensor]
_CHECK = 10
"""Number of iterations between checks of the residual."""
_SHRINK = 0.9
"""Factor on the curvature estimate after an accepted step, so that steps can become longer."""
_KEPT = 0.3
"""Fraction of an entry that a step must keep if the gradient is infinite on the boundary."""
MAX_ITERATIONS = 2000
"""Default for the largest number of gradient steps."""


@dataclass(frozen=True)
class Problem:
    """Regularizer with its derivatives, and stopping criteria; see :func:`regularized`.

    ``jacobian(p, v)`` returns ``J v`` at ``p``, for a regularizer with a closed form of
    Proposition 1; None stands for conjugate gradients.
    """

    omega: Regularizer
    gamma: float
    grad: Regularizer | None
    hvp: HessianProduct | None
    tolerance: float
    max_iterations: int = MAX_ITERATIONS
    jacobian: HessianProduct | None = None

    def slope(self, point: Tensor) -> Tensor:
        """Return ``γ ∇Ω`` at a point."""
        if self.grad is not None:
            return self.gamma * _checked("grad", self.grad(point), point.shape)
        with torch.enable_grad():
            point = point.detach().requires_grad_()
            values = _checked("omega", self.omega(point), point.shape[:-1])
            (slope,) = torch.autograd.grad(values.sum(), point)
        return self.gamma * slope

    def bend(self, point: Tensor, vector: Tensor) -> Tensor:
        """Return the Hessian-vector product ``γ ∇²Ω v`` at a point."""
        if self.hvp is not None:
            return self.gamma * _checked("hvp", self.hvp(point, vector), point.shape)
        with torch.enable_grad():
            point = point.detach().requires_grad_()
            if self.grad is not None:
                slope = self.grad(point)
            else:
                (slope,) = torch.autograd.grad(self.omega(point).sum(), point, create_graph=True)
            (product,) = torch.autograd.grad(slope, point, vector)
        return self.gamma * product


def _checked(name: str, values: Tensor, shape: torch.Size) -> Tensor:
    if isinstance(values, Tensor) and values.shape == shape:
        return values
    found = tuple(values.shape) if isinstance(values, Tensor) else kind(values)
    raise ValueError(f"{name} must return a tensor of shape {tuple(shape)}, got {found}")


def minimize(problem: Problem, scores: Tensor, allowed: Tensor) -> Tensor:
    """Minimize ``γ Ω(q) - <q, x>`` over the simplex of the allowed entries, row by row.

    FISTA (Beck & Teboulle, 2009) with backtracking and restarts: every row has its own curvature
    estimate ``scale`` (``L``) and momentum ``theta``; ``energy`` is ``θ² L`` of the last accepted
    step, infinite after a restart, from which ``θ = 1`` follows.

    Warns:
        ConvergenceWarning: some row does not reach the tolerance. It holds the best of the points
            that were checked, a distribution all the same.
    """

    def gradient(point: Tensor) -> Tensor:
        return (problem.slope(point) - scores).masked_fill(~allowed, 0.0)

    def project(point: Tensor) -> Tensor:
        return sparsemax(point.masked_fill(~allowed, -inf))

    point = previous = allowed / allowed.sum(-1, keepdim=True, dtype=scores.dtype).clamp(min=1)
    scale = torch.full_like(point[..., :1], problem.gamma)
    theta = torch.ones_like(scale)
    energy = closest = torch.full_like(scale, inf)
    # Rows in which a gradient was infinite, such as that of the entropy on the boundary.
    unbounded = torch.zeros_like(scale, dtype=torch.bool)
    done = scores.isnan().any(-1, keepdim=True)
    result = point.masked_fill(done, torch.nan)
    for iteration in range(1, problem.max_iterations + 1):
        # Extrapolate the last step by the momentum, at most to the boundary of the simplex.
        new_theta = 2 / (1 + (1 + 4 * scale / energy).sqrt())
        step = point - previous
        limit = torch.where(step < 0, point / -step, inf).amin(-1, keepdim=True)
        limit = torch.where(unbounded, (1 - _KEPT) * limit, limit)
        length = torch.minimum(new_theta * (1 / theta - 1), limit)
        mixed = (point + length * step).clamp_(min=0)
        slope = gradient(mixed)
        candidate = project(mixed - slope / scale)
        move = candidate - mixed
        next_slope = gradient(candidate)
        change = ((next_slope - slope) * move).sum(-1, keepdim=True)
        # By convexity this implies the quadratic upper bound of backtracking, and it does not lose
        # digits by cancellation as function values do. Infinite and NaN gradients make it false.
        accept = change <= scale / 2 * move.square().sum(-1, keepdim=True)
        # The bound is a sum over the row: moves of its large entries can outweigh a small one that
        # comes so close to an infinite gradient that thousands of steps do not bring it back.
        unbounded = unbounded | ~next_slope.isfinite().all(-1, keepdim=True)
        accept = accept & ~(unbounded & (candidate < _KEPT * point).any(-1, keepdim=True))
        restart = (move * (candidate - point)).sum(-1, keepdim=True) < 0
        # Rows whose step is rejected stay where they are and try a shorter one.
        energy = torch.where(accept, (new_theta.square() * scale).masked_fill(restart, inf), energy)
        theta = torch.where(accept, new_theta.masked_fill(restart, 1.0), theta)
        previous = torch.where(accept, point, previous)
        point = torch.where(accept, candidate, point)
        scale = torch.where(accept, _SHRINK * scale, 2 * scale)
        if iteration % _CHECK and iteration < problem.max_iterations:
            continue
        # The result is a plain projected step from here, accepted by its own residual.
        probs = project(point - gradient(point) / scale)
        residual = (probs - project(probs - gradient(probs))).abs().amax(-1, keepdim=True)
        # Converged rows are frozen, so that they do not depend on the rest of the batch.
        closer = ~done & (residual < closest)
        result, closest = torch.where(closer, probs, result), torch.where(closer, residual, closest)
        done = done | (closest <= problem.tolerance)
        if bool(done.all()):
            return result
    # The same words in every call: Python then shows them once, and not in every update.
    warnings.warn(
        f"some rows did not reach tolerance {problem.tolerance:g} in {problem.max_iterations} "
        "iterations; they hold the best point found",
        ConvergenceWarning,
        stacklevel=2,
    )
    return result


def conjugate_gradients(problem: Problem, probs: Tensor, vector: Tensor) -> Tensor:
    """Solve ``T γ ∇²Ω(p) u = T v`` for ``u = T u``, where ``T`` centers on the support of ``p``.

    ``u`` is zero off the support, and computed in float64: near the boundary the Hessian of many
    regularizers is so badly conditioned (1e4 at an entry of 1e-9) that one product rounded to
    float32 would leave a hundred times the residual asked for. ``u`` is NaN in rows where ``v`` is
    not finite on the support and, if values cannot be read (as under ``vmap``), in rows with a
    direction of no curvature.

    Raises:
        RuntimeError: a direction has no positive curvature, so that ``Ω`` is not strongly convex.

    Warns:
        ConvergenceWarning: a row does not converge. It holds the iterate of the least residual.
    """
    bend, eps = _bend(problem, probs)
    support = probs > 0
    count = support.sum(-1, keepdim=True).clamp(min=1)

    def centered(values: Tensor) -> Tensor:
        kept = torch.where(support, values, 0.0)
        return torch.where(support, kept - kept.sum(-1, keepdim=True) / count, 0.0)

    kept = torch.where(support, in_double(vector), 0.0)
    scale = kept.abs().amax(-1, keepdim=True)
    # Rows are scaled to a largest entry of one, so that squares neither overflow nor vanish.
    unit = kept / scale.masked_fill(scale == 0, 1.0)
    # The first centering leaves its rounding error: a constant, no direction in the simplex.
    residual = direction = centered(centered(unit))
    solution = best = torch.zeros_like(residual)
    size = least = residual.square().sum(-1, keepdim=True)
    # The precision of the vector, or what rounding lets float64 reach. The floor: a vector constant
    # on the support, whose solution is zero, leaves entries of eps².
    target = max(torch.finfo(vector.dtype).eps ** 2, torch.finfo(size.dtype).eps ** 1.6) * size
    target = target.clamp(min=torch.finfo(vector.dtype).eps ** 3)
    flat = torch.zeros_like(size, dtype=torch.bool)
    # In exact arithmetic ``n`` iterations are enough.
    for _ in range(20 + 4 * probs.size(-1)):
        active = (size > target) & ~flat
        if is_concrete(active) and not bool(active.any()):
            break
        product = centered(bend(direction))
        curvature = (direction * product).sum(-1, keepdim=True)
        # Rounding of the product and of its sum cannot make a curvature as low as this.
        noise = 8 * eps * direction.norm(dim=-1, keepdim=True) * product.norm(dim=-1, keepdim=True)
        flat = flat | active & (curvature <= -noise)
        active = active & (curvature > 0)
        length = size / torch.where(active, curvature, 1.0)
        solution = torch.where(active, solution + length * direction, solution)
        residual = torch.where(active, residual - length * product, residual)
        new_size = residual.square().sum(-1, keepdim=True)
        ratio = new_size / torch.where(active, size, 1.0)
        direction = torch.where(active, residual + ratio * direction, direction)
        size = torch.where(active, new_size, size)
        closer = size < least
        best, least = torch.where(closer, solution, best), torch.where(closer, size, least)
    if is_concrete(flat) and bool(flat.any()):
        raise RuntimeError("the regularizer is not strongly convex: a direction has no curvature")
    stopped = least > target
    if is_concrete(stopped) and bool(stopped.any()):
        warnings.warn(
            "conjugate gradients did not converge in some rows; their gradient is approximate",
            ConvergenceWarning,
            stacklevel=2,
        )
    return (best * scale).masked_fill(flat | ~scale.isfinite(), torch.nan).to(vector.dtype)


def _bend(problem: Problem, probs: Tensor) -> tuple[Regularizer, float]:
    """Return ``v -> γ ∇²Ω(p) v`` for vectors in float64, and the rounding error of a product."""

    def in_precision_of_scores(vector: Tensor) -> Tensor:
        return in_double(problem.bend(probs, vector.to(probs.dtype)))

    wide = in_double(probs)
    try:
        problem.bend(wide, torch.zeros_like(wide))
    except RuntimeError:  # `omega` multiplies by a matrix that it holds in the scores' precision
        return in_precision_of_scores, torch.finfo(probs.dtype).eps
    return partial(problem.bend, wide), torch.finfo(wide.dtype).eps


_LOWEST = -1e15
"""Bound below centered scores: its square is finite in float32, and it gets no mass."""


def regularized(
    omega: Regularizer,
    *,
    gamma: float = 1.0,
    grad: Regularizer | None = None,
    hvp: HessianProduct | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = MAX_ITERATIONS,
) -> ProbabilityMap:
    r"""Make the mapping of a user-defined regularizer.

    .. math:: p = \arg\max_{q \in \Delta^n} \langle q, z \rangle - \gamma \, \Omega(q)

    Values come from FISTA with backtracking and restarts, its extrapolation shortened so that ``Ω``
    is evaluated on the simplex only. Derivatives solve the system of Proposition 1 by conjugate
    gradients on the support. Calling the map gives no gradient for parameters of ``Ω``,
    as :meth:`value` does, and there is no second derivative.

    Args:
        omega: ``Ω``, strongly convex and twice differentiable on the simplex: ``(..., n)`` to
            ``(...)``, rows independent. Masked entries are zeros in its argument.
        gamma: strength of the regularizer, positive; larger is flatter.
        grad: ``∇Ω``, ``(..., n)`` to ``(..., n)``; autograd of ``omega`` if None.
        hvp: ``(q, v) -> ∇²Ω(q) v``, both ``(..., n)``; autograd of the gradient if None.
        tolerance: largest accepted entry, in absolute value, of ``p - P(p + z - γ ∇Ω(p))``, which
            is zero at the solution; ``P`` projects onto the simplex.
        max_iterations: maximum number of gradient steps.

    Returns:
        A map. Calling it warns (:class:`ConvergenceWarning`) if the tolerance is not reached and
        raises ``ValueError`` if ``omega``, ``grad`` or ``hvp`` returns a wrong shape; the backward
        pass raises ``RuntimeError`` if ``omega`` proves not to be strongly convex. It reads values,
        so that ``torch.compile`` breaks the graph there.

    Raises:
        ValueError: ``gamma`` or ``tolerance`` is not positive and finite, or there is no iteration.

    References:
        Niculae & Blondel (2017), Proposition 1 and Appendix B.4; Beck & Teboulle (2009) for the
        accelerated method (FISTA); O'Donoghue & Candès (2015) for its restarts.
    """
    gamma, tolerance = positive("gamma", gamma), positive("tolerance", tolerance)
    if integer("max_iterations", max_iterations) < 1:
        raise ValueError(f"max_iterations must be at least 1, got {max_iterations}")
    return Regularized(Problem(omega, gamma, grad, hvp, tolerance, max_iterations))


class Regularized(ProbabilityMap):
    """Probability map that solves a :class:`Problem`; made by :func:`regularized`."""

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.problem = problem

    def forward(self, scores: Tensor, mask: Tensor | None = None, dim: int = -1) -> Tensor:
        """Return the maximizer, like ``scores``; all zeros for a row with nothing allowed."""
        wide = allowed_scores(scores, mask, dim)
        if scores.size(dim) == 0:
            return scores.clone()
        probs: Tensor = _RegularizedFunction.apply(wide.movedim(dim, -1), self.problem)
        return probs.movedim(-1, dim).to(scores.dtype)

    def omega(self, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``γ Ω(p)``; no constant is added to make it zero on one-hot distributions."""
        return self.problem.gamma * self.problem.omega(probs.movedim(dim, -1))

    def omega_one_hot(self, centered: Tensor, chosen: Tensor, dim: int = -1) -> Tensor:
        """Return ``γ Ω(e_y)``, which need not be zero."""
        return self.omega(torch.zeros_like(centered).scatter(dim, chosen, 1.0), dim).detach()


class _RegularizedFunction(Function):
    """Maximizer along the last axis; its Jacobian is that of Proposition 1."""

    @staticmethod
    def forward(scores: Tensor, problem: Problem) -> Tensor:
        centered, top = center(scores, -1)
        probs = minimize(problem, centered.clamp_(min=_LOWEST), scores > -inf)
        return probs.masked_fill(top == -inf, 0.0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.problem = inputs[1]
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """Return ``J g``: the Jacobian of Proposition 1 is symmetric."""
        (probs,) = ctx.saved_tensors
        return _ImplicitProduct.apply(probs, grads[0], ctx.problem), None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], scores: Tensor, problem: Problem
    ) -> tuple[Tensor, int]:
        return _RegularizedFunction.apply(*batch_first(info, in_dims, scores), problem), 0


class _ImplicitProduct(Function):
    """Product ``J v``, a Function itself to refuse a second derivative and to support ``vmap``."""

    @staticmethod
    def forward(probs: Tensor, vector: Tensor, problem: Problem) -> Tensor:
        return (problem.jacobian or partial(conjugate_gradients, problem))(probs, vector)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        raise RuntimeError("mappings made by regularized() have no second derivative")

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], probs: Tensor, vector: Tensor, problem: Problem
    ) -> tuple[Tensor, int]:
        pair = batch_first(info, in_dims, probs, vector)
        return _ImplicitProduct.apply(*pair, problem), 0

"""The mapping of any differentiable regulariser: accelerated projected gradient, then Prop. 1.

Niculae & Blondel (2017), §3.1 and Appendix B.4.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, inf
from torch.autograd import Function

from repro.mappings._arguments import allowed_scores, centre, check_gamma, is_concrete, kind
from repro.mappings._autograd import batch_first, keep
from repro.mappings._entmax import apply_entmax
from repro.mappings.modules import ProbabilityMap

Regulariser = Callable[[Tensor], Tensor]
HessianProduct = Callable[[Tensor, Tensor], Tensor]
_CHECK = 10
"""Steps between looks at the residual."""
_SHRINK = 0.9
"""Factor on the curvature estimate after a step that was short enough."""
_KEPT = 0.3
"""Share of an entry that a step has to leave where the gradient is infinite on the boundary."""


@dataclass(frozen=True)
class Problem:
    """Function to minimise; the arguments are those of :func:`regularized`."""

    omega: Regulariser
    gamma: float
    grad: Regulariser | None
    hvp: HessianProduct | None
    tolerance: float
    max_iterations: int

    def slope(self, point: Tensor) -> Tensor:
        """``γ ∇Ω``."""
        if self.grad is not None:
            return self.gamma * _checked("grad", self.grad(point), point.shape)
        with torch.enable_grad():
            point = point.detach().requires_grad_()
            values = _checked("omega", self.omega(point), point.shape[:-1])
            (slope,) = torch.autograd.grad(values.sum(), point)
        return self.gamma * slope

    def bend(self, point: Tensor, vector: Tensor) -> Tensor:
        """``γ ∇²Ω v``."""
        if self.hvp is not None:
            return self.gamma * _checked("hvp", self.hvp(point, vector), point.shape)
        with torch.enable_grad():
            point = point.detach().requires_grad_()
            if self.grad is not None:
                slope = self.grad(point)
            else:
                (slope,) = torch.autograd.grad(self.omega(point).sum(), point, create_graph=True)
            (bent,) = torch.autograd.grad(slope, point, vector)
        return self.gamma * bent


def _checked(name: str, values: Tensor, shape: torch.Size) -> Tensor:
    if isinstance(values, Tensor) and values.shape == shape:
        return values
    found = tuple(values.shape) if isinstance(values, Tensor) else kind(values)
    raise ValueError(f"{name} must return a tensor of shape {tuple(shape)}, got {found}")


def minimise(problem: Problem, scores: Tensor, allowed: Tensor) -> Tensor:
    """Minimise ``γ Ω(q) - <q, x>`` over the simplex of the allowed entries, row by row.

    FISTA (Beck & Teboulle, 2009) with backtracking and restarts: every row has its own curvature
    estimate ``scale`` (``L``) and momentum ``theta``; ``energy`` is ``θ² L`` of the last step,
    infinite at a restart.

    Raises:
        RuntimeError: rows did not reach the tolerance.
    """

    def gradient(point: Tensor) -> Tensor:
        return (problem.slope(point) - scores).masked_fill(~allowed, 0.0)

    def project(point: Tensor) -> Tensor:
        return apply_entmax(point.masked_fill(~allowed, -inf), 1.0, -1, True)

    point = previous = allowed / allowed.sum(-1, keepdim=True, dtype=scores.dtype).clamp(min=1)
    scale = torch.full_like(point[..., :1], problem.gamma)
    theta = torch.ones_like(scale)
    energy = residual = torch.full_like(scale, inf)
    # Rows whose gradient was infinite on the boundary, as that of the entropy is.
    barred = torch.zeros_like(scale, dtype=torch.bool)
    done = scores.isnan().any(-1, keepdim=True)
    found = point.masked_fill(done, torch.nan)
    for iteration in range(1, problem.max_iterations + 1):
        # The last step prolonged, as far as the momentum asks and the simplex allows.
        new_theta = 2 / (1 + (1 + 4 * scale / energy).sqrt())
        step = point - previous
        room = torch.where(step < 0, point / -step, inf).amin(-1, keepdim=True)
        room = torch.where(barred, (1 - _KEPT) * room, room)
        length = torch.minimum(new_theta * (1 / theta - 1), room)
        mixed = (point + length * step).clamp_(min=0)
        slope = gradient(mixed)
        candidate = project(mixed - slope / scale)
        move = candidate - mixed
        new_slope = gradient(candidate)
        change = ((new_slope - slope) * move).sum(-1, keepdim=True)
        # By convexity this is enough for the quadratic upper bound, and rounding spares it. It is
        # false where the gradient is infinite or NaN, as that of the entropy on the boundary.
        short = change <= scale / 2 * move.square().sum(-1, keepdim=True)
        # The bound sums over a row: the moves of its large entries would let a small one come so
        # close to an infinite gradient that thousands of steps do not bring it back.
        barred = barred | ~new_slope.isfinite().all(-1, keepdim=True)
        short = short & ~(barred & (candidate < _KEPT * point).any(-1, keepdim=True))
        turned = (move * (candidate - point)).sum(-1, keepdim=True) < 0
        # A row whose step was too long stays where it is and shortens it.
        energy = torch.where(short, (new_theta.square() * scale).masked_fill(turned, inf), energy)
        theta = torch.where(short, new_theta.masked_fill(turned, 1.0), theta)
        previous = torch.where(short, point, previous)
        point = torch.where(short, candidate, point)
        scale = torch.where(short, _SHRINK * scale, 2 * scale)
        if iteration % _CHECK and iteration < problem.max_iterations:
            continue
        # A plain projected step from here, with its exact zeros, and its residual.
        probs = project(point - gradient(point) / scale)
        residual = (probs - project(probs - gradient(probs))).abs().amax(-1, keepdim=True)
        # A row that is found stays as it is, so that it does not depend on the rest of the batch.
        found = torch.where(done, found, probs)
        done = done | (residual <= problem.tolerance)
        if bool(done.all()):
            return found
    raise RuntimeError(
        f"{int((~done).sum())} of {done.numel()} rows did not reach tolerance {problem.tolerance:g}"
        f" in {problem.max_iterations} iterations; largest residual {residual[~done].max():.2g}"
    )


def conjugate_gradients(problem: Problem, probs: Tensor, vector: Tensor) -> Tensor:
    """Solve ``T γ ∇²Ω(p) u = T v`` for ``u = T u``, where ``T`` centres on the support of ``p``.

    ``u`` is zero off the support, NaN in rows where ``v`` is not finite on the support, and, where
    values cannot be read, in rows that did not converge.

    Raises:
        RuntimeError: a row did not converge, as when ``Ω`` is not strongly convex.
    """
    support = probs > 0
    count = support.sum(-1, keepdim=True).clamp(min=1)

    def centred(values: Tensor) -> Tensor:
        kept = torch.where(support, values, 0.0)
        return torch.where(support, kept - kept.sum(-1, keepdim=True) / count, 0.0)

    kept = torch.where(support, vector, 0.0)
    scale = kept.abs().amax(-1, keepdim=True)
    # The system is solved for rows of size one, so that squares neither overflow nor vanish.
    unit = kept / scale.masked_fill(scale == 0, 1.0)
    # The first centring leaves its rounding, a constant, which is no direction of the simplex.
    rest = way = centred(centred(unit))
    found = torch.zeros_like(rest)
    size = rest.square().sum(-1, keepdim=True)
    eps = torch.finfo(rest.dtype).eps
    # A vector that is constant on the support leaves about eps², and its solution is zero.
    goal = (size * eps**1.6).clamp(min=eps**3)
    for _ in range(20 + 4 * probs.size(-1)):
        busy = size > goal
        if is_concrete(busy) and not bool(busy.any()):
            break
        bent = centred(problem.bend(probs, way))
        curvature = (way * bent).sum(-1, keepdim=True)
        busy = busy & (curvature > 0)
        length = size / torch.where(busy, curvature, 1.0)
        found = torch.where(busy, found + length * way, found)
        rest = torch.where(busy, rest - length * bent, rest)
        following = rest.square().sum(-1, keepdim=True)
        way = torch.where(busy, rest + following / torch.where(busy, size, 1.0) * way, way)
        size = torch.where(busy, following, size)
    stopped = size > goal
    if is_concrete(stopped) and bool(stopped.any()):
        worst = (size / goal)[stopped].max().sqrt()
        raise RuntimeError(
            f"conjugate gradients stopped at {worst:.2g} times the accepted residual; "
            "is the regulariser strongly convex?"
        )
    return (found * scale).masked_fill(stopped | ~scale.isfinite(), torch.nan)


_LOWEST = -1e15
"""Stands for every lower score: squares of it are finite in float32, and it gets no mass."""


def regularized(
    omega: Regulariser,
    *,
    gamma: float = 1.0,
    grad: Regulariser | None = None,
    hvp: HessianProduct | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = 2000,
) -> ProbabilityMap:
    r"""Make the mapping of a regulariser of your own.

    .. math:: p = \arg\max_{q \in \Delta^n} \langle q, z \rangle - \gamma \, \Omega(q)

    Values come from FISTA with backtracking and restarts, its extrapolation cut back so that ``Ω``
    is asked for on the simplex only. The derivative solves Proposition 1 on the support by
    conjugate gradients. Parameters of ``Ω`` receive no gradient; there is no second derivative.

    Args:
        omega: ``Ω``, strongly convex and twice differentiable on the simplex: ``(..., n)`` to
            ``(...)``, rows independent. Masked entries are zeros in its argument.
        gamma: strength of the regulariser, positive; larger is flatter.
        grad: ``∇Ω``, ``(..., n)`` to ``(..., n)``; autograd of ``omega`` if None.
        hvp: ``(q, v) -> ∇²Ω(q) v``, both ``(..., n)``; autograd of the gradient if None.
        tolerance: the largest entry of ``p - P(p + z - γ ∇Ω(p))``, ``P`` the projection onto the
            simplex, that is accepted. It is zero at the solution.
        max_iterations: how many gradient steps to try.

    Returns:
        A map; calling it raises ``RuntimeError``, with the residual, if the tolerance is not
        reached, and ``ValueError`` if ``omega``, ``grad`` or ``hvp`` gives a wrong shape. It reads
        values, so that it cannot be compiled into one graph.

    Raises:
        ValueError: ``gamma`` or the tolerance is not positive and finite, or there is no iteration.

    References:
        Niculae & Blondel (2017), Proposition 1 and Appendix B.4; Beck & Teboulle (2009) for the
        accelerated method (FISTA); O'Donoghue & Candès (2015) for its restarts.
    """
    gamma = check_gamma(gamma)
    if not 0 < tolerance < inf:
        raise ValueError(f"tolerance must be positive and finite, got {tolerance}")
    if max_iterations < 1:
        raise ValueError(f"max_iterations must be at least 1, got {max_iterations}")
    return Regularized(Problem(omega, gamma, grad, hvp, tolerance, max_iterations))


class Regularized(ProbabilityMap):
    """The map of a :class:`Problem`; see :func:`regularized`."""

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.problem = problem

    def forward(self, scores: Tensor, mask: Tensor | None = None, dim: int = -1) -> Tensor:
        """Return the maximiser, like ``scores``; all zeros for a row with nothing allowed.

        Raises:
            RuntimeError: the tolerance is not reached.
            ValueError: what the regulariser returns has a wrong shape.
        """
        wide = allowed_scores(scores, mask, dim)
        if scores.size(dim) == 0:
            return scores.clone()
        probs: Tensor = _RegularizedFunction.apply(wide.movedim(dim, -1), self.problem)
        return probs.movedim(-1, dim).to(scores.dtype)

    def omega(self, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``γ Ω(p)`` as given: zero on one-hot distributions only if yours is."""
        return self.problem.gamma * self.problem.omega(probs.movedim(dim, -1))


class _RegularizedFunction(Function):
    """The maximiser along the last axis."""

    @staticmethod
    def forward(scores: Tensor, problem: Problem) -> Tensor:
        centred, top = centre(scores, -1)
        probs = minimise(problem, centred.clamp_(min=_LOWEST), scores > -inf)
        return probs.masked_fill(top == -inf, 0.0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.problem = inputs[1]
        keep(ctx, output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """Proposition 1; the Jacobian is symmetric."""
        (probs,) = ctx.saved_tensors
        return _ImplicitProduct.apply(probs, grads[0], ctx.problem), None

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        (probs,) = ctx.saved_tensors
        moved: Tensor = _ImplicitProduct.apply(probs, tangents[0], ctx.problem)
        return moved

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], scores: Tensor, problem: Problem
    ) -> tuple[Tensor, int]:
        return _RegularizedFunction.apply(*batch_first(info, in_dims, scores), problem), 0


class _ImplicitProduct(Function):
    """``J v``; apart, so that a second derivative is refused and ``vmap`` finds a rule."""

    @staticmethod
    def forward(probs: Tensor, vector: Tensor, problem: Problem) -> Tensor:
        return conjugate_gradients(problem, probs, vector)

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

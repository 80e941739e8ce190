"""The mapping of any differentiable regulariser: accelerated projected gradient, then Prop. 1.

Niculae & Blondel (2017), §3.1 and Appendix B.4.
"""

from typing import Any

from torch import Tensor, inf
from torch.autograd import Function

from repro.mappings._masking import allowed_scores, centre
from repro.mappings._projected_gradient import (
    HessianProduct,
    Problem,
    Regulariser,
    conjugate_gradients,
    minimise,
)
from repro.mappings.modules import ProbabilityMap

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
        probs: Tensor = RegularizedFunction.apply(wide.movedim(dim, -1), self.problem)
        return probs.movedim(-1, dim).to(scores.dtype)

    def omega(self, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``γ Ω(p)`` as given: zero on one-hot distributions only if yours is."""
        return self.problem.gamma * self.problem.omega(probs.movedim(dim, -1))


class RegularizedFunction(Function):
    """The maximiser along the last axis."""

    @staticmethod
    def forward(scores: Tensor, problem: Problem) -> Tensor:
        """Centre and solve."""
        centred, top = centre(scores, -1)
        probs = minimise(problem, centred.clamp_(min=_LOWEST), scores > -inf)
        return probs.masked_fill(top == -inf, 0.0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keep the distribution only."""
        ctx.problem = inputs[1]
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """Proposition 1; the Jacobian is symmetric."""
        (probs,) = ctx.saved_tensors
        return ImplicitProduct.apply(probs, grads[0], ctx.problem), None

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        """Apply the Jacobian to a tangent of the scores."""
        (probs,) = ctx.saved_tensors
        moved: Tensor = ImplicitProduct.apply(probs, tangents[0], ctx.problem)
        return moved

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], scores: Tensor, problem: Problem
    ) -> tuple[Tensor, int]:
        """One more leading dimension."""
        at = in_dims[0] or 0
        return RegularizedFunction.apply(scores.movedim(at, 0), problem), 0


class ImplicitProduct(Function):
    """``J v``; apart, so that a second derivative is refused and ``vmap`` finds a rule."""

    @staticmethod
    def forward(probs: Tensor, vector: Tensor, problem: Problem) -> Tensor:
        """Conjugate gradients."""
        return conjugate_gradients(problem, probs, vector)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keep nothing."""

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        """Refuse.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("mappings made by regularized() have no second derivative")

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], probs: Tensor, vector: Tensor, problem: Problem
    ) -> tuple[Tensor, int]:
        """One more leading dimension."""
        pair = [
            tensor.expand(info.batch_size, *tensor.shape) if at is None else tensor.movedim(at, 0)
            for tensor, at in zip((probs, vector), in_dims, strict=False)
        ]
        return ImplicitProduct.apply(*pair, problem), 0

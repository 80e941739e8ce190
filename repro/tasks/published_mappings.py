"""Mappings by the algorithms of two papers, to reproduce timings and inexact values.

Those of :mod:`repro.mappings` solve the same problems exactly and faster.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.autograd import Function

from repro.mappings._arguments import (
    allowed_scores,
    center,
    like_scores,
    positive,
    prefix_sums,
    to_last,
)
from repro.mappings._entmax import apply_jacobian
from repro.mappings._norm import SqPnormMax, jacobian_product
from repro.mappings.modules import Entmax
from repro.mappings.regularized import Problem, Regularized

BISECTION_PASSES = 50
"""Iterations of Algorithm 1 (``T`` in the paper); the bracket is then at most 1e-15 wide."""

FISTA_TOLERANCE = 1e-2
"""Tolerance of the solver in Niculae & Blondel (2017), §4.2."""


class PublishedEntmax(Entmax):
    """Variant of :class:`Entmax` that uses the algorithms of Peters et al. (2019).

    Args:
        alpha: a number; ``"sort"`` takes 1.5 and 2 only.
        solver: ``"sort"`` (Algorithm 2 for α = 1.5, its counterpart for sparsemax) or
            ``"bisection"`` (Algorithm 1, 50 passes, then normalized).

    Raises:
        ValueError: the solver is unknown, or cannot solve for this ``alpha``.

    References:
        Peters et al. (2019), Algorithms 1 and 2; Martins & Astudillo (2016), Algorithm 1.
    """

    settings = ("alpha", "solver")

    def __init__(self, alpha: float = 1.5, solver: str = "bisection") -> None:
        super().__init__(positive("alpha", alpha))
        if solver not in _SOLVERS:
            raise ValueError(f"solver is {solver!r}; expected one of {', '.join(_SOLVERS)}")
        if solver == "sort" and alpha not in (1.5, 2.0):
            raise ValueError(f"solver 'sort' takes alpha 1.5 or 2, got {alpha}")
        if alpha <= 1:
            raise ValueError(f"these solvers need alpha above 1, got {alpha}")
        self.solver = solver

    def forward(self, scores: Tensor, mask: Tensor | None = None, dim: int = -1) -> Tensor:
        """Return :func:`entmax` of the scores, by the selected solver."""
        wide = allowed_scores(scores, mask, dim)
        if scores.size(dim) == 0:
            return scores.clone()
        assert isinstance(self.alpha, float)
        probs = _PublishedEntmax.apply(to_last(wide, dim), self.alpha, self.solver)
        return like_scores(probs, scores, dim)


class _PublishedEntmax(Function):
    """Compute ``p`` along the last axis; the Jacobian is Peters et al. (2019), Proposition 1."""

    generate_vmap_rule = True

    @staticmethod
    def forward(scores: Tensor, alpha: float, solver: str) -> Tensor:
        centered, top = center(scores, -1)
        probs = _SOLVERS[solver]((alpha - 1) * centered, alpha)
        return probs.masked_fill_(top == -torch.inf, 0.0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.r = inputs[1] - 1.0
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (probs,) = ctx.saved_tensors
        return apply_jacobian(probs, ctx.r, grads[0])[0], None, None


def _by_bisection(scaled: Tensor, alpha: float) -> Tensor:
    """Solve ``Σ [(α-1) z - τ]_+^{1/(α-1)} = 1`` by bisection (Algorithm 1).

    ``scaled`` is ``(α - 1) z`` with largest entry zero along the last axis.
    """
    power = 1 / (alpha - 1)
    low = torch.full_like(scaled[..., :1], -1.0)
    high = torch.full_like(low, -(float(scaled.size(-1)) ** (1 - alpha)))
    for _ in range(BISECTION_PASSES):
        middle = (low + high) / 2
        enough = (scaled - middle).clamp(min=0).pow(power).sum(-1, keepdim=True) >= 1
        low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)
    powers = (scaled - low).clamp(min=0).pow(power)
    return powers / powers.sum(-1, keepdim=True)


def _by_sorting(scaled: Tensor, alpha: float) -> Tensor:
    """Solve by sorting (Algorithm 2): ``τ`` has a closed form for each prefix of sorted scores."""
    # The threshold is at least -1, so entries can be clamped at -2 to keep sums finite.
    ordered = scaled.clamp(min=-2).sort(-1, descending=True).values
    ranks = torch.arange(1, scaled.size(-1) + 1, dtype=scaled.dtype, device=scaled.device)
    mean = prefix_sums(ordered) / ranks
    if alpha == 2:
        thresholds = mean - 1 / ranks
    else:
        squares = ranks * (prefix_sums(ordered.square()) / ranks - mean.square())
        thresholds = mean - ((1 - squares).clamp(min=0) / ranks).sqrt()
    size = (ordered >= thresholds).sum(-1, keepdim=True).clamp(min=1)
    above = (scaled - thresholds.gather(-1, size - 1)).clamp(min=0)
    return above if alpha == 2 else above.square()


_SOLVERS = {"sort": _by_sorting, "bisection": _by_bisection}


class FistaPnormMax(SqPnormMax):
    """Variant of :class:`SqPnormMax` that uses accelerated projected gradient, stopped early.

    The derivative is the closed form of :class:`SqPnormMax` at the approximate solution. Stopped
    early, the solver leaves entries close to zero (5e-9), at which the linear system of
    Proposition 1 is too badly conditioned for an iterative solver.

    Args:
        p: the exponent of the norm, in ``(1, 2]``.
        gamma: strength of the regularizer, positive.
        tolerance: largest entry of the fixed-point residual at which the solver may stop.

    References:
        Niculae & Blondel (2017), §3.1, §4.2 (tolerance 1e-2) and Appendix B.4.
    """

    settings: ClassVar[tuple[str, ...]] = ("p", "gamma", "tolerance")

    def __init__(
        self, p: float = 1.5, gamma: float = 1.0, tolerance: float = FISTA_TOLERANCE
    ) -> None:
        super().__init__(p, gamma)
        self.tolerance = tolerance
        omega, gradient = SqPnormMax(p).omega, self._gradient
        self.solver = Regularized(
            Problem(omega, gamma, gradient, None, tolerance, jacobian=self._jacobian)
        )

    def forward(self, scores: Tensor, mask: Tensor | None = None, dim: int = -1) -> Tensor:
        """Return :func:`sq_pnorm_max` of the scores, up to the tolerance."""
        return self.solver(scores, mask=mask, dim=dim)

    def _gradient(self, probs: Tensor) -> Tensor:
        """Return ``q^{p-1} ‖q‖^{2-p}``."""
        tiny = torch.finfo(probs.dtype).tiny
        norm = probs.pow(self.p).sum(-1, keepdim=True).clamp(min=tiny).pow(1 / self.p)
        return probs.pow(self.p - 1) * norm.pow(2 - self.p)

    def _jacobian(self, probs: Tensor, vector: Tensor) -> Tensor:
        """Return ``J v`` of Proposition 1, in which ``γ`` is a factor of the Hessian."""
        return jacobian_product(probs, vector, self.p) / self.gamma

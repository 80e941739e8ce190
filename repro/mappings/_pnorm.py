r"""Sq-pnorm-max: threshold by a bracketed Newton method, derivative in closed form.

With ``q = p / (p - 1)`` and scores ``x = z / γ``, the optimality conditions say
``y_i = a_i^{q-1} ‖a‖_q^{2-q}`` with ``a = [x - τ]_+`` and the one ``τ`` for which they sum to one.
The sum is the derivative of the convex function ``½ ‖[x - τ]_+‖_q²``, so it is monotone in ``τ``.
"""

from typing import Any

import torch
from torch import Tensor

from repro.mappings._arguments import (
    allowed_scores,
    cast_like,
    centre,
    check_gamma,
    divided_by_gamma,
    is_concrete,
    like_scores,
    number,
    to_last,
)
from repro.mappings._autograd import DifferentiableFunction, keep
from repro.mappings._entmax import on_support, sparsemax
from repro.mappings.kernels import dispatch
from repro.mappings.kernels.dispatch import launch
from repro.mappings.modules import ProbabilityMap

_PASSES = 100
_ROUNDING = 64 * torch.finfo(torch.float64).eps


def sq_pnorm_max(
    scores: Tensor, p: float = 1.5, *, gamma: float = 1.0, mask: Tensor | None = None, dim: int = -1
) -> Tensor:
    r"""Map scores to a sparse distribution by a squared ``p``-norm.

    .. math:: y = \arg\max_{q \in \Delta^n} \langle q, z \rangle
              - \tfrac{\gamma}{2} \lVert q \rVert_p^2

    Args:
        scores: ``z``, floating point, ``n`` on ``dim``; ``-inf`` forbids an entry.
        p: the exponent of the norm, in ``(1, 2]``; 2 is sparsemax.
        gamma: strength of the regulariser, positive; larger is flatter.
        mask: boolean, broadcasts to ``scores``; True = allowed.
        dim: the axis that becomes a distribution.

    Returns:
        ``y``, like ``scores``; sums to one along ``dim``, exactly zero where masked and off the
        support. A row with nothing allowed is all zeros. NaN stays in its row.

    Raises:
        TypeError: scores are not floating point, or the mask is not boolean.
        ValueError: ``p`` is not in ``(1, 2]``, ``gamma`` is not positive and finite, or the mask
            does not broadcast.

    References:
        Niculae & Blondel (2017), §3.1, Eq. 8 and Proposition 1.
    """
    p = check_norm(p)
    if p == 2:
        return sparsemax(scores, gamma=gamma, mask=mask, dim=dim)
    gamma = check_gamma(gamma)
    wide = allowed_scores(scores, mask, dim)
    if scores.size(dim) == 0:
        return scores.clone()
    rows = to_last(divided_by_gamma(wide, gamma, dim), dim)
    return like_scores(PnormFunction.run(rows, p), scores, dim)


def check_norm(p: float) -> float:
    """Return ``p`` as a Python number; raise ``ValueError`` unless it is in ``(1, 2]``.

    For other exponents the squared norm is not strongly convex and differentiable.
    """
    p = number("p", p)
    if not 1 < p <= 2:
        raise ValueError(f"p must be larger than 1 and at most 2, got {p}")
    return p


class SqPnormMax(ProbabilityMap):
    """:func:`sq_pnorm_max` with ``Ω(y) = γ/2 (‖y‖_p² - 1)``."""

    settings = ("p", "gamma")

    def __init__(self, p: float = 1.5, gamma: float = 1.0) -> None:
        super().__init__()
        self.p = check_norm(p)
        self.gamma = check_gamma(gamma)

    def forward(self, scores: Tensor, mask: Tensor | None = None, dim: int = -1) -> Tensor:
        """Return :func:`sq_pnorm_max`."""
        return sq_pnorm_max(scores, self.p, gamma=self.gamma, mask=mask, dim=dim)

    def omega(self, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``γ/2 (‖y‖_p² - 1)``."""
        support = probs > 0
        powers = on_support(probs, support).pow(self.p) * support
        return self.gamma / 2 * (powers.sum(dim).pow(2 / self.p) - 1)


class PnormFunction(DifferentiableFunction):
    """``y`` along the last axis at ``γ = 1``; the Jacobian is that of Proposition 1, by hand."""

    @staticmethod
    def forward(scores: Tensor, p: float) -> Tensor:
        """Centre, solve for the threshold, normalise; in float64."""
        if dispatch.has_kernel(scores):
            return launch("sq_pnorm_max_forward", scores, p)
        centred, top = centre(scores, -1)
        wide, dual = centred.double(), p / (p - 1)
        # Newton's method in a bracket of c = -τ; a step that leaves it, or is not at most half the
        # one before, is replaced by bisection. A row stays where it is once its step is a matter of
        # rounding, so that it does not depend on the rest of the batch.
        c = high = step = torch.ones_like(wide[..., :1])
        low = high * wide.size(-1) ** (-2 / dual) / 2
        done = torch.zeros_like(c, dtype=torch.bool)
        for _ in range(_PASSES):
            # Σ y and its derivative in c, from a / c, which is at most one.
            height = (wide / c + 1).clamp_min_(0)
            power = height.pow(dual - 2) * height.sign()
            count = power.sum(-1, keepdim=True)
            power = power * height
            first = power.sum(-1, keepdim=True)
            total = (power * height).sum(-1, keepdim=True)
            norm = total.pow(2 / dual - 1)
            mass = c * first * norm
            slope = ((dual - 1) * count - (dual - 2) * first.square() / total) * norm
            low, high = torch.where(mass < 1, c, low), torch.where(mass < 1, high, c)
            newton = (1 - mass) / slope
            safe = (c + newton >= low) & (c + newton <= high) & (2 * newton.abs() <= step.abs())
            move = torch.where(safe, newton, (low + high) / 2 - c).masked_fill(done, 0.0)
            c, step = c + move, torch.where(done, step, move)
            done = done | ~(newton.abs() > _ROUNDING * c)
            if is_concrete(c) and bool(done.all()):
                break
        powers = (wide / c + 1).clamp_min_(0).pow_(dual - 1)
        probs = powers / powers.sum(-1, keepdim=True)
        return cast_like(scores, probs).masked_fill_(top == -torch.inf, 0.0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.p = inputs[1]
        keep(ctx, output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """Apply the symmetric Jacobian; differentiable once more."""
        (probs,) = ctx.saved_tensors
        if dispatch.differentiable_once(probs, grads[0]):
            return launch("sq_pnorm_max_backward", probs, grads[0], ctx.p), None
        return _apply_jacobian(probs, ctx.p, grads[0]), None

    @staticmethod
    def tangent(ctx: Any, *tangents: Tensor) -> Tensor:
        (probs,) = ctx.saved_tensors
        return _apply_jacobian(probs, ctx.p, tangents[0])


def _apply_jacobian(probs: Tensor, p: float, vector: Tensor) -> Tensor:
    """``J v = K v - w <w, v> / Σw``, ``K`` the inverse Hessian on the support and ``w = K 1``.

    Eq. 8 is a diagonal and a matrix of rank one, so ``K = diag(s) - κ y yᵀ`` by Sherman–Morrison,
    with ``s = y^{2-p} / ((p - 1) ‖y‖^{2-p})`` and ``κ = (2 - p) / ((p - 1) ‖y‖²)``.
    """
    support = probs > 0
    kept = on_support(probs, support)
    # One for a row with nothing allowed; all other rows have a norm of at least n^{1/p - 1}.
    norm = (kept.pow(p) * support).sum(-1, keepdim=True)
    norm = on_support(norm, norm > 0).pow(1 / p)
    slope = (kept / norm).pow(2 - p) * support / (p - 1)
    share = (2 - p) / (p - 1) * probs / norm.square()
    ones = slope - share
    total = ones.sum(-1, keepdim=True)
    total = on_support(total, total > 0)
    inner = (probs * vector).sum(-1, keepdim=True)
    mean = (ones * vector).sum(-1, keepdim=True) / total
    return slope * vector - share * inner - ones * mean

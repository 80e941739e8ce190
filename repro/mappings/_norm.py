r"""Mappings regularized by a norm: α-normmax and sq-pnorm-max.

α-normmax is ``p ∝ h^{1/(α-1)}`` with ``h = [z - τ]_+`` and ``Σ h^{α/(α-1)} = 1``. The terms of that
sum are also the entmax, with parameter ``2 - 1/α``, of the scores divided by ``r = 1 - 1/α``;
normmax is therefore proportional to the power ``1/α`` of that entmax.

Sq-pnorm-max, with ``q = p / (p - 1)`` and scores ``x = z / γ``, is ``y_i = a_i^{q-1} ‖a‖_q^{2-q}``
with ``a = [x - τ]_+`` and the unique ``τ`` for which the ``y_i`` sum to one. The sum is the
derivative of the convex function ``½ ‖[x - τ]_+‖_q²`` in ``-τ``, so it decreases in ``τ``.
"""

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from repro.mappings._arguments import (
    allowed_scores,
    cast_like,
    center,
    divided_by_gamma,
    in_double,
    is_concrete,
    like_scores,
    number,
    per_row,
    positive,
    to_last,
)
from repro.mappings._autograd import DifferentiableFunction
from repro.mappings._conjugate import WithGradient
from repro.mappings._entmax import on_support, sparsemax
from repro.mappings._threshold import entmax15_powers, entmax_powers
from repro.mappings.kernels import dispatch
from repro.mappings.kernels.dispatch import in_torch
from repro.mappings.modules import ProbabilityMap

_PASSES = 100
"""Maximum number of iterations for the threshold of sq-pnorm-max."""
_ROUNDING = 64 * torch.finfo(torch.float64).eps
"""Relative size of a Newton step below which it is rounding error."""


def normmax(
    scores: Tensor, alpha: float | Tensor = 2.0, *, mask: Tensor | None = None, dim: int = -1
) -> Tensor:
    r"""Map scores to a sparse distribution by norm-regularized argmax.

    .. math:: p = \arg\max_{q \in \Delta^n} \langle q, z \rangle - \lVert q \rVert_\alpha

    The regularizer is flat near the corners and steep near the center: compared with entmax the
    support is small and the mass on it even. As ``α`` grows the distribution tends to the uniform
    one on the support of sparsemax; as ``α`` falls to one, to the argmax.

    ``scores``, ``mask``, ``dim``, the result and errors are as in :class:`ProbabilityMap`.

    Args:
        alpha: a number above one, or a tensor that broadcasts to ``scores`` with size 1 on
            ``dim`` (one value per row); it receives gradients.

    References:
        Blondel et al. (2020), norm entropies.
    """
    wide = allowed_scores(scores, mask, dim)
    if scores.size(dim) == 0:
        return scores.clone()
    exponent = _exponent(alpha, wide, dim)
    return like_scores(NormmaxFunction.run(to_last(wide, dim), exponent), scores, dim)


class NormmaxFunction(DifferentiableFunction):
    """Compute ``p`` along the last axis; its Jacobian is ``(I - p 1ᵀ) diag(d) (I - 1 pᵀ)``."""

    @staticmethod
    def forward(scores: Tensor, alpha: float | Tensor) -> Tensor:
        """Center, solve for the threshold, normalize; in float64."""
        centered, top = center(scores, -1)
        wide = in_double(centered)
        if isinstance(alpha, float) and alpha == 2.0:
            powers = entmax15_powers(2 * wide).sqrt_()
        else:
            exponent = in_double(alpha) if isinstance(alpha, Tensor) else alpha
            r = (exponent - 1) / exponent
            scaled = (wide / r).clamp(min=-torch.finfo(wide.dtype).max)
            powers = entmax_powers(scaled, r, convex=True).pow(1 / exponent)
        probs = powers.div_(powers.sum(-1, keepdim=True)).to(scores.dtype)
        return probs.masked_fill_(top == -torch.inf, 0.0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        by_row = isinstance(inputs[1], Tensor)
        ctx.alpha = None if by_row else inputs[1]
        ctx.save_for_backward(output, inputs[1] if by_row else None)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None]:
        """Apply the symmetric Jacobian, in float64; the result is differentiable again."""
        saved, alpha = ctx.saved_tensors
        probs, grad = in_double(saved), in_double(grads[0])
        slope = _slope(probs, ctx.alpha if alpha is None else in_double(alpha))
        moved = slope * (grad - (probs * grad).sum(-1, keepdim=True))
        moved = cast_like(saved, moved - probs * moved.sum(-1, keepdim=True))
        if alpha is None:
            return moved, None
        drift = alpha_derivative(probs, in_double(alpha)) * grad
        return moved, cast_like(alpha, drift.sum(-1, keepdim=True))


def _slope(probs: Tensor, alpha: float | Tensor) -> Tensor:
    """Return ``d = p^{2-α} ‖p‖_α^{α-1} / (α - 1)`` on the support, zero elsewhere."""
    relative, support, size = _relative(probs)
    norm = _power_sum(relative, support, alpha) ** ((alpha - 1) / alpha)
    return size * relative ** (2 - alpha) * support * norm / (alpha - 1)


def alpha_derivative(probs: Tensor, alpha: Tensor) -> Tensor:
    """Return ``∂p/∂α``: effects at a fixed threshold, through it and through normalization."""
    relative, support, _ = _relative(probs)
    norm = _power_sum(relative, support, alpha) ** (1 / alpha)
    heights = relative / norm
    logs = heights.log()
    lowered = (probs * heights ** (alpha - 1) * logs).sum(-1, keepdim=True) / alpha
    moved = _slope(probs, alpha) * lowered - probs * logs / (alpha - 1)
    return moved - probs * moved.sum(-1, keepdim=True)


def _relative(probs: Tensor, dim: int = -1) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``p / max p`` (one off the support), the support and ``max p`` (one if empty)."""
    support = probs > 0
    size = probs.detach().amax(dim, keepdim=True)
    size = size.masked_fill(size == 0, 1.0)
    return on_support(probs / size, support), support, size


def _power_sum(relative: Tensor, support: Tensor, alpha: float | Tensor, dim: int = -1) -> Tensor:
    """Return ``Σ (p / max p)^α``, which is at least one, or 0.5 for empty rows."""
    return (relative**alpha * support).sum(dim, keepdim=True).clamp(min=0.5)


def norm(probs: Tensor, alpha: float | Tensor, dim: int = -1) -> Tensor:
    """Return ``‖p‖_α`` with size 1 on ``dim``."""
    relative, support, size = _relative(probs, dim)
    return size * _power_sum(relative, support, alpha, dim) ** (1 / alpha)


def _exponent(alpha: float | Tensor, scores: Tensor, dim: int) -> float | Tensor:
    """Check ``α`` and return it as a float, or with one value per row, ``(..., 1)``."""
    if not isinstance(alpha, Tensor):
        return _above_one("alpha", alpha)
    wide = to_last(per_row("alpha", alpha, scores, dim), dim)
    right = (wide > 1) & (wide < torch.inf)
    if is_concrete(right) and not bool(right.all()):
        raise ValueError(f"alpha must be above 1 and finite, got {wide[~right][0].item():g}")
    return wide.masked_fill(~right, torch.nan)


def _above_one(name: str, value: Any) -> float:
    value = number(name, value)
    if not 1 < value < math.inf:
        raise ValueError(f"{name} must be above 1 and finite, got {value}")
    return value


class Normmax(ProbabilityMap):
    """Module form of :func:`normmax`, with ``Ω(p) = ‖p‖_α - 1``.

    Args:
        alpha: a number above one; a tensor with size 1 on the axis of the distributions, kept as
            a buffer; or an ``nn.Parameter``, learned without reparametrization.
    """

    settings = ("alpha",)

    alpha: float | Tensor

    def __init__(self, alpha: float | Tensor = 2.0) -> None:
        super().__init__()
        self._keep("alpha", alpha, _above_one)

    def forward(self, scores: Tensor, mask: Tensor | None = None, dim: int = -1) -> Tensor:
        """Return :func:`normmax` of the scores at the current alpha."""
        return normmax(scores, self.alpha, mask=mask, dim=dim)

    def omega(self, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``‖p‖_α - 1``."""
        return norm(probs, self.alpha, dim).squeeze(dim) - 1

    def conjugate_centered(self, centered: Tensor, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``<p, z> - Ω(p)``, differentiable in a tensor alpha."""
        exponent = _exponent(self.alpha, centered, dim)
        probs, centered = to_last(probs, dim), to_last(centered, dim)
        held = probs.detach()
        best = (held * centered).sum(-1) - norm(held, exponent).squeeze(-1) + 1
        if not isinstance(exponent, Tensor):
            return best
        # The derivative of the norm in alpha at a fixed p, with its graph for second derivatives.
        relative, support, size = _relative(probs)
        total = _power_sum(relative, support, exponent)
        logs = (relative**exponent * relative.log() * support).sum(-1, keepdim=True)
        rate = logs / (exponent * total) - total.log() / exponent.square()
        rate = -(size * total ** (1 / exponent) * rate)
        value: Tensor = WithGradient.run(exponent, rate, best.detach(), -1, None)
        return value


def sq_pnorm_max(
    scores: Tensor, p: float = 1.5, *, gamma: float = 1.0, mask: Tensor | None = None, dim: int = -1
) -> Tensor:
    r"""Map scores to a sparse distribution by a squared ``p``-norm.

    .. math:: y = \arg\max_{q \in \Delta^n} \langle q, z \rangle
              - \tfrac{\gamma}{2} \lVert q \rVert_p^2

    ``scores``, ``mask``, ``dim``, the result and errors are as in :class:`ProbabilityMap`.

    Args:
        p: the exponent of the norm, in ``(1, 2]``; 2 is sparsemax.
        gamma: strength of the regularizer, positive; larger is flatter.

    References:
        Niculae & Blondel (2017), §3.1, Eq. 8 and Proposition 1.
    """
    p = _check_p(p)
    if p == 2:
        return sparsemax(scores, gamma=gamma, mask=mask, dim=dim)
    rows = to_last(divided_by_gamma(allowed_scores(scores, mask, dim), gamma, dim), dim)
    if scores.size(dim) == 0:
        return scores.clone()
    return like_scores(PnormFunction.run(rows, p), scores, dim)


def _check_p(p: float) -> float:
    """Return ``p`` as a float; raise ``ValueError`` unless it is in ``(1, 2]``.

    For other exponents the squared norm is not both strongly convex and differentiable.
    """
    p = number("p", p)
    if not 1 < p <= 2:
        raise ValueError(f"p must be larger than 1 and at most 2, got {p}")
    return p


class SqPnormMax(ProbabilityMap):
    """Module form of :func:`sq_pnorm_max`, with ``Ω(y) = γ/2 (‖y‖_p² - 1)``."""

    settings: ClassVar[tuple[str, ...]] = ("p", "gamma")

    def __init__(self, p: float = 1.5, gamma: float = 1.0) -> None:
        super().__init__()
        self.p = _check_p(p)
        self.gamma = positive("gamma", gamma)

    def forward(self, scores: Tensor, mask: Tensor | None = None, dim: int = -1) -> Tensor:
        """Return :func:`sq_pnorm_max` of the scores."""
        return sq_pnorm_max(scores, self.p, gamma=self.gamma, mask=mask, dim=dim)

    def omega(self, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``γ/2 (‖y‖_p² - 1)``."""
        support = probs > 0
        powers = on_support(probs, support).pow(self.p) * support
        return self.gamma / 2 * (powers.sum(dim).pow(2 / self.p) - 1)


class PnormFunction(DifferentiableFunction):
    """Compute ``y`` along the last axis at ``γ = 1``; the Jacobian is that of Proposition 1."""

    @staticmethod
    def forward(scores: Tensor, p: float) -> Tensor:
        """Solve by a kernel or in PyTorch."""
        probs: Tensor = dispatch.implementation("sq_pnorm_max_forward", scores)(scores, p)
        return probs

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.p = inputs[1]
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """Apply the symmetric Jacobian; the result is differentiable again."""
        (probs,) = ctx.saved_tensors
        return jacobian_product(probs, grads[0], ctx.p), None


def jacobian_product(probs: Tensor, vector: Tensor, p: float) -> Tensor:
    """Return ``J v`` of sq-pnorm-max at ``γ = 1`` along the last axis."""
    call = dispatch.backward_implementation("sq_pnorm_max_backward", probs, vector)
    product: Tensor = call(probs, vector, p)
    return product


@in_torch
def sq_pnorm_max_forward(scores: Tensor, p: float) -> Tensor:
    """Center, solve for the threshold, normalize; in float64."""
    centered, top = center(scores, -1)
    wide, dual = in_double(centered), p / (p - 1)
    # Newton's method in a bracket of c = -τ; a step that leaves it, or is longer than half the
    # one before, is replaced by bisection. A row is frozen once its step is rounding error, so
    # that it does not depend on the rest of the batch.
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


@in_torch
def sq_pnorm_max_backward(probs: Tensor, vector: Tensor, p: float) -> Tensor:
    """Return ``J v = K v - w <w, v> / Σw``, where ``K`` inverts the Hessian and ``w = K 1``.

    The Hessian on the support, Eq. 8, is diagonal plus rank one, so ``K = diag(s) - κ y yᵀ`` with
    ``s = y^{2-p} / ((p - 1) ‖y‖^{2-p})``, ``κ = (2 - p) / ((p - 1) ‖y‖²)`` (Sherman–Morrison).
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

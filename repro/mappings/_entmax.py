"""Softmax, sparsemax and α-entmax: public functions, forward computation and derivatives."""

import math
from collections.abc import Callable
from typing import Any, Literal, overload

import torch
from torch import Tensor

from repro.mappings._arguments import (
    allowed_scores,
    as_column,
    cast_like,
    center,
    check_per_row,
    divided_by_gamma,
    in_double,
    is_concrete,
    like_scores,
    positive,
    to_last,
)
from repro.mappings._autograd import DifferentiableFunction
from repro.mappings._threshold import entmax15_powers, entmax_powers, sparsemax_powers
from repro.mappings.kernels import dispatch
from repro.mappings.kernels.dispatch import in_torch


def softmax(
    scores: Tensor, *, gamma: float = 1.0, mask: Tensor | None = None, dim: int = -1
) -> Tensor:
    r"""Map scores to a dense distribution.

    .. math:: p = \arg\max_{q \in \Delta^n} \langle q, z \rangle - \gamma \sum_j q_j \log q_j
              = \exp(z / \gamma) / \textstyle\sum_j \exp(z_j / \gamma)

    ``scores``, ``mask``, ``dim``, the result and errors are as in :class:`ProbabilityMap`.

    Args:
        gamma: strength of the regularizer, positive; larger is flatter.

    References:
        Peters et al. (2019), Eqs. 4 and 7.
    """
    tempered = divided_by_gamma(allowed_scores(scores, mask, dim), gamma, dim)
    return apply_entmax(tempered, 0.0, scores, dim)


@overload
def sparsemax(
    scores: Tensor, dim: int = ..., *, gamma: float = ..., mask: Tensor | None = ...,
    return_support_size: Literal[False] = ...,
) -> Tensor: ...  # fmt: skip
@overload
def sparsemax(
    scores: Tensor, dim: int = ..., *, gamma: float = ..., mask: Tensor | None = ...,
    return_support_size: Literal[True],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
def sparsemax(
    scores: Tensor,
    dim: int = -1,
    *,
    gamma: float = 1.0,
    mask: Tensor | None = None,
    return_support_size: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    r"""Project scores onto the probability simplex.

    .. math:: p = \arg\min_{q \in \Delta^n} \tfrac12 \lVert q - z / \gamma \rVert_2^2

    ``scores``, ``mask``, ``dim``, the result and errors are as in :class:`ProbabilityMap`.

    Args:
        gamma: strength of the regularizer, positive; larger is flatter.
        return_support_size: return as well the number of positive entries of each row, with size 1
            on ``dim``.

    References:
        Martins & Astudillo (2016), Eq. 2; Peters et al. (2019), Eq. 5.
    """
    tempered = divided_by_gamma(allowed_scores(scores, mask, dim), gamma, dim)
    probs = apply_entmax(tempered, 1.0, scores, dim)
    return (probs, support_size(probs, dim)) if return_support_size else probs


@overload
def entmax(
    scores: Tensor, alpha: float | Tensor = ..., *, mask: Tensor | None = ..., dim: int = ...,
    return_support_size: Literal[False] = ...,
) -> Tensor: ...  # fmt: skip
@overload
def entmax(
    scores: Tensor, alpha: float | Tensor = ..., *, mask: Tensor | None = ..., dim: int = ...,
    return_support_size: Literal[True],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
def entmax(
    scores: Tensor,
    alpha: float | Tensor = 1.5,
    *,
    mask: Tensor | None = None,
    dim: int = -1,
    return_support_size: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    r"""Map scores to a sparse distribution by Tsallis-regularized argmax.

    .. math:: p = \arg\max_{q \in \Delta^n} \langle q, z \rangle
              - \frac{1}{\alpha(\alpha - 1)} \sum_j (q_j^\alpha - q_j)

    ``alpha = 1`` is softmax, ``alpha = 2`` is sparsemax. Below 1 tails are heavier than those of
    softmax: ``p`` falls with a power of the distance to the largest score.

    ``scores``, ``mask``, ``dim``, the result and errors are as in :class:`ProbabilityMap`.

    Args:
        alpha: a positive number, or a tensor that broadcasts to ``scores`` with size 1 on ``dim``
            (one value per row or per attention head); it receives gradients. Where
            values cannot be read and there are kernels, rows with alpha below 1 are NaN: kernels
            require alpha of at least 1.
        return_support_size: return as well the number of positive entries of each row, with size 1
            on ``dim``.

    References:
        Peters et al. (2019), Eq. 10; Proposition 1 for the Jacobian. Correia et al. (2019),
        Proposition 1, for the derivative in alpha.
    """
    wide = allowed_scores(scores, mask, dim)
    r, dense = _r_and_density(alpha, wide, dim)
    probs = apply_entmax(wide, r, scores, dim, dense)
    return (probs, support_size(probs, dim)) if return_support_size else probs


@overload
def entmax15(
    scores: Tensor, dim: int = ..., *, mask: Tensor | None = ...,
    return_support_size: Literal[False] = ...,
) -> Tensor: ...  # fmt: skip
@overload
def entmax15(
    scores: Tensor, dim: int = ..., *, mask: Tensor | None = ...,
    return_support_size: Literal[True],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
def entmax15(
    scores: Tensor, dim: int = -1, *, mask: Tensor | None = None, return_support_size: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Return :func:`entmax` of the scores at ``alpha = 1.5``."""
    probs = entmax(scores, 1.5, mask=mask, dim=dim)
    return (probs, support_size(probs, dim)) if return_support_size else probs


def support_size(probs: Tensor, dim: int) -> Tensor:
    """Count the positive entries of every row, with size 1 on ``dim``."""
    return (probs > 0).sum(dim, keepdim=True)


def _r_and_density(alpha: float | Tensor, scores: Tensor, dim: int) -> tuple[float | Tensor, bool]:
    """Return ``r = α - 1``, with ``dim`` last, and whether some ``r`` is known to be negative."""
    if not isinstance(alpha, Tensor):
        r = positive("alpha", alpha) - 1.0
        return r, r < 0
    check_per_row("alpha", alpha, scores, dim)
    rows, dense = (alpha - 1).to(scores.dtype), False
    if is_concrete(alpha) and alpha.numel():
        lowest, highest = (end.item() for end in alpha.detach().aminmax())
        if not (lowest > 0 and highest < math.inf):
            raise ValueError(f"alpha must be positive and finite, got {lowest} to {highest}")
        dense = lowest < 1
    else:  # kernels do not solve rows with r < 0
        low = rows < 0 if dispatch.has_kernel(scores) else rows <= -1
        rows = rows.masked_fill(low | (rows == torch.inf), torch.nan)
    if dim not in (-1, scores.dim() - 1):
        rows = rows.view((1,) * (scores.dim() - rows.dim()) + rows.shape).movedim(dim, -1)
    return rows, dense


def apply_entmax(
    wide: Tensor, r: float | Tensor, scores: Tensor, dim: int, dense: bool = False
) -> Tensor:
    """Compute α-entmax along an axis, with derivatives, in the dtype of the scores.

    Args:
        wide: the scores in the precision of the computation.
        r: ``α - 1``, a number or a tensor whose last axis has size 1.
        scores: the result is like them.
        dim: the axis of the distributions.
        dense: whether some ``r`` is negative, which kernels do not solve.
    """
    if scores.size(dim) == 0:
        return scores.clone()
    if _is_softmax(r) and is_concrete(wide):
        probs = wide.softmax(dim)
        # torch gives NaN to a whole row with an infinite maximum.
        if not bool(probs.select(dim, 0).isnan().any()):
            return cast_like(scores, probs)
    return like_scores(EntmaxFunction.run(to_last(wide, dim), r, dense), scores, dim)


def _is_softmax(r: float | Tensor) -> bool:
    return not isinstance(r, Tensor) and r == 0.0


class EntmaxFunction(DifferentiableFunction):
    """Compute ``p`` along the last axis; its derivative is :func:`apply_jacobian`."""

    @staticmethod
    def forward(scores: Tensor, r: float | Tensor, dense: bool) -> Tensor:
        """Solve by a kernel or in PyTorch."""
        name = "entmax_forward_rows" if isinstance(r, Tensor) else "entmax_forward"
        if dense or (_is_softmax(r) and scores.is_cpu) or not dispatch.has_kernel(scores):
            return entmax_forward(scores, r)
        given = _of_rows(r, scores) if isinstance(r, Tensor) else r
        probs: Tensor = dispatch.kernel(name, scores)(scores, given)
        return probs

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, r, ctx.dense = inputs
        by_row = isinstance(r, Tensor)
        ctx.r = None if by_row else r
        ctx.save_for_backward(output, r if by_row else None)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, None]:
        """Apply the symmetric Jacobian; the result is differentiable again."""
        probs, r = ctx.saved_tensors
        once, to_r = dispatch.differentiable_once(probs, grads[0]), ctx.needs_input_grad[1]
        if ctx.r == 0.0 and once:
            return torch._softmax_backward_data(grads[0], probs, -1, probs.dtype), None, None
        if ctx.dense or ctx.r == 0.0 or not once:
            if not to_r:
                return entmax_backward(probs, grads[0], ctx.r if r is None else r), None, None
            moved, terms = _terms_in_r(probs, r, grads[0])
            return moved, terms.sum_to_size(r.shape), None
        if r is None:
            return dispatch.launch("entmax_backward", probs, grads[0], ctx.r), None, None
        r_of_rows = _of_rows(r, probs)
        if not to_r:
            launched = dispatch.launch("entmax_backward_scores", probs, grads[0], r_of_rows)
            return launched, None, None
        moved, drift = dispatch.launch("entmax_backward_rows", probs, grads[0], r_of_rows)
        return moved, drift.view(*probs.shape[:-1], 1).sum_to_size(r.shape), None


def _of_rows(r: Tensor, rows: Tensor) -> Tensor:
    """Expand ``r`` to one value per row, unless it is a single value for all rows."""
    return r if r.numel() == 1 else r.expand(*rows.shape[:-1], 1)


@in_torch
def entmax_forward(scores: Tensor, r: float | Tensor) -> Tensor:
    """Center, solve for the threshold in double precision, normalize.

    Single precision would lose entries tied at the threshold and, above ``α = 2``, where the
    map is not Lipschitz, all small ones.
    """
    if _is_softmax(r):
        # torch's operator returns NaN for rows whose maximum is infinite
        finite = scores.clamp(max=torch.finfo(scores.dtype).max)
        empty = scores.amax(-1, keepdim=True) == -torch.inf
        return finite.softmax(-1).masked_fill_(empty, 0.0)
    centered, top = center(scores, -1)
    wide = in_double(centered)
    if isinstance(r, Tensor):
        convex = is_concrete(r) and bool((r <= 1).all())
        powers = entmax_powers(wide, r, convex)
    elif r == 1.0:
        powers = sparsemax_powers(wide)
    elif r == 0.5:
        powers = entmax15_powers(wide)
    else:
        powers = entmax_powers(wide, r, r <= 1)
    probs = cast_like(scores, powers.div_(powers.sum(-1, keepdim=True)))
    if isinstance(r, Tensor) or r < 0:  # there even the lowest finite number has mass
        lowest = centered <= -torch.finfo(scores.dtype).max
        probs.masked_fill_(lowest & torch.as_tensor(r < 0), 0.0)
    return probs.masked_fill_(top == -torch.inf, 0.0)


@in_torch
def entmax_forward_rows(scores: Tensor, r_of_rows: Tensor) -> Tensor:
    """Compute :func:`entmax_forward` with one ``r`` for each row, or one for all."""
    return entmax_forward(scores, as_column(r_of_rows, scores))


@in_torch
def entmax_backward(probs: Tensor, grad: Tensor, r: float | Tensor) -> Tensor:
    """Return ``J g``."""
    return apply_jacobian(probs, r, grad)[0]


@in_torch
def entmax_backward_scores(probs: Tensor, grad: Tensor, r_of_rows: Tensor) -> Tensor:
    """Return ``J g`` with one ``r`` for each row, or one for all."""
    return apply_jacobian(probs, as_column(r_of_rows, probs), grad)[0]


@in_torch
def entmax_backward_rows(probs: Tensor, grad: Tensor, r_of_rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``J g`` and the gradient of the ``r`` of each row."""
    moved, terms = _terms_in_r(probs, as_column(r_of_rows, probs), grad)
    return moved, terms.sum(-1)


def _terms_in_r(probs: Tensor, r: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``J g``, and the terms of the sum that is the gradient of ``r``."""
    moved, centered = apply_jacobian(probs, r, grad)
    return moved, -curvature_in_r(probs, r) * centered


def apply_jacobian(probs: Tensor, r: float | Tensor, vector: Tensor) -> tuple[Tensor, Tensor]:
    """Multiply by the Jacobian ``diag(s) - s sᵀ / Σs``, ``s = p^{1-r}`` on the support.

    Above ``α = 2`` slopes ``s`` may overflow, and if one of them dominates, ``v`` minus its mean
    weighted by ``s`` cancels. There, the mean uses slopes relative to the largest, and ``v`` less
    its entry at that slope; the product with ``s`` is two products with its root, and is clamped to
    finite numbers. Relative slopes that still matter would underflow in float32, hence float64.

    Returns:
        ``J v``, and ``v`` minus its mean weighted by ``s``.
    """
    if not isinstance(r, Tensor) and r <= 1:  # values of tensors are not read
        # p^{1-r} on the support, zero elsewhere, also in the derivative.
        support = probs > 0
        if r == 0.0:
            slope = probs
        elif r == 1.0 and not torch.is_grad_enabled():
            slope = support.to(probs.dtype)
        else:  # also r = 1 with grad enabled, for second derivatives of zero instead of an error
            slope = on_support(probs, support).pow(1 - r) * support
        mean = (vector * slope).sum(-1, keepdim=True) / _total(slope)
        return slope * (vector - mean), vector - mean
    shares, wide = in_double(probs), in_double(vector)
    support = shares > 0
    floor, smallest = shares.detach().masked_fill(~support, torch.inf).min(-1, keepdim=True)
    floor = floor.masked_fill((floor == torch.inf) | (torch.as_tensor(r) <= 1), 1.0)
    slope = on_support(shares / floor, support).pow(1 - r) * support
    wide = wide - wide.gather(-1, smallest)
    centered = wide - (wide * slope).sum(-1, keepdim=True) / _total(slope)
    logs = on_support(shares, support).log()
    half = (0.5 * (1 - r) * logs).exp().clamp(max=torch.finfo(slope.dtype).max) * support
    limit = torch.finfo(probs.dtype).max
    moved = (centered * half * half).clamp(-limit, limit)
    return moved.to(probs.dtype), centered.to(probs.dtype)


def _total(slope: Tensor) -> Tensor:
    """Return ``Σ s``, or one for rows without mass."""
    total = slope.sum(-1, keepdim=True)
    return total.masked_fill(total == 0, 1.0)


def on_support(probs: Tensor, support: Tensor) -> Tensor:
    """Return ``p`` on the support and one elsewhere, so that powers and logarithms are finite."""
    return probs.masked_fill(~support, 1.0)


def curvature_in_r(probs: Tensor, r: Tensor) -> Tensor:
    """Return ``-∂p/∂r`` at a fixed ``τ = z - (p^r - 1) / r``.

    It is ``p L² (e^θ - 1 - θ) / θ²`` with ``L = log p`` and ``θ = -r L``. For ``r > 1`` the term
    ``p e^θ / r² = s / r²`` is omitted: it may overflow, and a shift of ``τ`` cancels it.
    """
    logs = on_support(probs, probs > 0).log()
    theta, large = -r * logs, r > 1
    curve = logs.square() * growth_curvature(theta.masked_fill(large, 0.0))
    safe = r.masked_fill(~large, 1.0)
    return probs * torch.where(large, -(1 + theta) / safe.square(), curve)


_SWITCH = 0.5
"""Absolute value below which functions with a removable singularity use their series."""
_TERMS = 16


def _with_series(theta: Tensor, direct: Callable[[Tensor], Tensor], terms: list[float]) -> Tensor:
    """Evaluate ``direct``, or near zero its power series; neither branch leaks NaN gradients."""
    near = theta.abs() < _SWITCH
    small = torch.where(near, theta, 0.0)
    series = torch.full_like(small, terms[-1])
    for term in reversed(terms[:-1]):
        series = series * small + term
    return torch.where(near, series, direct(torch.where(near, 1.0, theta)))


def decay_ratio(theta: Tensor) -> Tensor:
    """Return ``(1 - e^{-θ}) / θ``, one at zero."""
    terms = [(-1) ** k / math.factorial(k + 1) for k in range(_TERMS)]
    return _with_series(theta, lambda t: -torch.expm1(-t) / t, terms)


def growth_curvature(theta: Tensor) -> Tensor:
    """Return ``(e^θ - 1 - θ) / θ²``, one half at zero."""
    terms = [1 / math.factorial(k + 2) for k in range(_TERMS)]
    return _with_series(theta, lambda t: (torch.expm1(t) - t) / t.square(), terms)


def decay_curvature(theta: Tensor) -> Tensor:
    """Return ``κ(θ) = (1 - e^{-θ} (1 + θ)) / θ²``, one half at zero."""
    terms = [(-1) ** k * (k + 1) / math.factorial(k + 2) for k in range(_TERMS)]
    return _with_series(theta, lambda t: (1 - torch.exp(-t) * (1 + t)) / t.square(), terms)

"""Root finding for α-entmax: Newton's method from the left, on a convex function, without sorting.

With ``r = α - 1`` and centred scores ``x <= 0``, α-entmax is ``p = [r x + c]_+^{1/r}`` for the one
``c`` in ``(0, 1]`` that makes it sum to one (Peters et al. 2019, Lemma 2, with ``c = -τ``).
For ``r <= 1`` the norm ``‖[r x + c]_+‖_{1/r}`` is convex and increasing in ``c``, so Newton's
method started at ``c = 1`` decreases to the root and never passes it; for a flat row one step is
enough, and for ``r -> 0`` one step is the log-sum-exp.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from repro.mappings._masking import readable

Step = Callable[[Tensor], Tensor]
SMALLEST_ORDER = 1e-20
"""Stands for ``α - 1 = 0``: small enough that ``log1p(r x) / r`` is ``x`` to the last bit."""
_TINY = 1e-30
"""Keeps a row with nothing allowed out of 0 / 0; sums of all other rows are at least one."""


def sparsemax_powers(scores: Tensor, dim: int) -> Tensor:
    """Unnormalised sparsemax of centred scores; iterates the closed form on the current support."""

    def step(c: Tensor) -> Tensor:
        kept = (scores + c).clamp_(min=0)
        mass = kept.sum(dim, keepdim=True)
        return c - (mass - 1) / kept.sign_().sum(dim, keepdim=True)

    c = _descend(step, torch.ones_like(scores.narrow(dim, 0, 1)), _passes(scores, dim, 1.0))
    return (scores + c).clamp_(min=0)


def entmax15_powers(scores: Tensor, dim: int) -> Tensor:
    """Unnormalised 1.5-entmax of centred scores."""
    half = scores / 2

    def step(c: Tensor) -> Tensor:
        kept = (half + c).clamp_(min=0)
        total = kept.sum(dim, keepdim=True)
        norm = kept.square_().sum(dim, keepdim=True).sqrt()
        return c - norm * (norm - 1) / total.clamp_(min=_TINY)

    c = _descend(step, torch.ones_like(half.narrow(dim, 0, 1)), _passes(scores, dim, 0.5))
    return (half + c).clamp_(min=0).square_()


def entmax_powers(scores: Tensor, order: float | Tensor, dim: int, convex: bool) -> Tensor:
    """Unnormalised α-entmax of centred scores for any ``r = α - 1 >= 0``.

    The unknown is ``level = -log max(p) = -log(c) / r``, which stays accurate as ``r -> 0``.

    Args:
        scores: centred scores, ``n`` on ``dim``.
        order: ``r``, a number or a tensor with size 1 on ``dim``.
        dim: the axis of the distributions.
        convex: every ``r <= 1``; otherwise rows with ``r > 1`` are bisected.
    """
    order = torch.as_tensor(order, dtype=scores.dtype, device=scores.device)
    order = order.clamp(min=SMALLEST_ORDER)
    if convex:
        level = _newton_level(scores, order, dim)
    else:
        level = _bracketed_level(scores, order, dim)
    return _log_powers(scores, order, level).exp_()


def _log_powers(scores: Tensor, order: Tensor, level: Tensor) -> Tensor:
    """``log(p / max p)`` at a level; ``-inf`` outside the support."""
    # exp(r level) = 1 / c; the clamp keeps it finite for large r, where c underflows.
    growth = (order * level).clamp(max=80.0).exp()
    return ((order * growth) * scores).clamp_(min=-1).log1p_() / order


def _newton_step(scores: Tensor, order: Tensor, level: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """One Newton step; also returns ``level - log Σ``, which has the sign of ``level - root``."""
    logs = _log_powers(scores, order, level)
    total = logs.exp().sum(dim, keepdim=True).clamp_(min=_TINY)
    # (1 - r) clamped above zero turns exp(-inf * 0) at r = 1 into 0, not NaN.
    slope = logs.mul_((1 - order).clamp(min=1e-30)).exp_().sum(dim, keepdim=True)
    slope = slope.clamp_(min=_TINY)
    gap = level - total.log()
    newton = level - ((order * gap).expm1() * (total / slope)).log1p() / order
    return newton, gap


def _newton_level(scores: Tensor, order: Tensor, dim: int) -> Tensor:
    def step(negative: Tensor) -> Tensor:
        return -_newton_step(scores, order, -negative, dim)[0]

    start = _zero_levels(scores, order, dim)
    return -_descend(step, start, _passes(scores, dim, 1.0))


def _bracketed_level(scores: Tensor, order: Tensor, dim: int) -> Tensor:
    """Newton where ``r <= 1``, bisection of ``[0, log n]`` elsewhere."""
    low = level = _zero_levels(scores, order, dim)
    high = low + math.log(scores.size(dim))
    bits = -math.log2(torch.finfo(scores.dtype).eps)
    for _ in range(_passes(scores, dim, 1.0) + math.ceil(bits / 2)):
        newton, gap = _newton_step(scores, order, level, dim)
        below = gap < 0
        low, high = torch.where(below, level, low), torch.where(below, high, level)
        level = torch.where(order > 1, (low + high) / 2, torch.maximum(newton, level))
    return level


def _zero_levels(scores: Tensor, order: Tensor, dim: int) -> Tensor:
    return torch.zeros_like(scores.narrow(dim, 0, 1) + order)


def _descend(step: Step, start: Tensor, passes: int) -> Tensor:
    """Iterate ``c <- min(c, step(c))``.

    Where values can be read for free the loop ends once nothing moves; every row is then at its
    own fixed point, so the result is the same as after all passes, whatever else is in the batch.
    """
    current, early = start, readable(start)
    for _ in range(passes):
        # minimum() propagates NaN, so a bad row stays bad; rounding cannot make a row oscillate.
        following = torch.minimum(current, step(current))
        if early and torch.equal(following, current):
            break
        current = following
    return current


def _passes(scores: Tensor, dim: int, order: float) -> int:
    """Enough Newton steps for every row.

    For a convex increasing function the product of residual and slope falls at least fourfold
    per step; it starts at most at ``n^{2r}`` and matters until it reaches the rounding error.
    """
    n = max(scores.size(dim), 1)
    return 2 + math.ceil(math.log(n ** (2 * order) / torch.finfo(scores.dtype).eps, 4))

"""Root finding for α-entmax, without sorting: monotone Newton iteration on a convex function.

With ``r = α - 1`` and centered scores ``x <= 0``, α-entmax is ``p = [r x + c]_+^{1/r}`` for the
unique ``c`` in ``(0, 1]`` for which it sums to one (Peters et al. 2019, Lemma 2, with ``c = -τ``).
For ``r <= 1`` the norm ``‖[r x + c]_+‖_{1/r}`` is convex and increasing in ``c``, so Newton's
method started at ``c = 1`` decreases to the root and never passes it. One step suffices for a row
of equal scores, and in the limit ``r -> 0``, where it is the log-sum-exp. For ``-1 < r < 0`` the
root is at ``c > 1`` and the same norm is concave in ``c``, so the same steps increase to it.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from repro.mappings._arguments import is_concrete

Step = Callable[[Tensor], Tensor]
SMALLEST_R = 1e-20
"""Stands for ``α - 1 = 0``: small enough that ``log1p(r x) / r`` is ``x`` to the last bit."""
_LOWEST_LOG = -700.0
"""Logarithm of the smallest height ``r x + c`` in the search for ``r > 1``, in double precision."""
_TIED = 1e-12
"""Tolerance, relative to ``c``, within which entries below the threshold count as tied with it."""
_HEIGHT_PASSES = 64
"""Number of bisections of ``[-700, 0]``, after which the bracket is at rounding error."""
_TINY = 1e-30
"""Lower bound of denominators: avoids 0 / 0 in rows with nothing allowed; others are far larger."""


def sparsemax_powers(scores: Tensor) -> Tensor:
    """Return unnormalized sparsemax of centered rows; each step solves on the current support."""

    def excess(kept: Tensor) -> Tensor:
        mass = kept.sum(-1, keepdim=True)
        return (mass - 1) / kept.sign().sum(-1, keepdim=True)

    return _heights_at_root(scores, excess, _passes(scores, 1.0))


def entmax15_powers(scores: Tensor) -> Tensor:
    """Return unnormalized 1.5-entmax of centered rows."""

    def excess(kept: Tensor) -> Tensor:
        total = kept.sum(-1, keepdim=True).clamp_min_(_TINY)
        norm = kept.square().sum(-1, keepdim=True).sqrt_()
        return norm * (norm - 1) / total

    return _heights_at_root(scores / 2, excess, _passes(scores, 0.5)).pow_(2)


def _heights_at_root(scaled: Tensor, excess: Step, passes: int) -> Tensor:
    """Return ``[r x + c]_+`` at the root, where ``excess`` is the Newton decrement of ``c``.

    ``c`` stays above the root by more than its rounding error: below the root, entries tied at the
    threshold would leave the support for good.
    """
    above = 2 * torch.finfo(scaled.dtype).eps

    def step(c: Tensor) -> Tensor:
        return c - excess((scaled + c).relu_()) + above

    c = _descend(step, torch.ones_like(scaled[..., :1]), passes)
    # The last step is applied to the heights, not to c, whose rounding error is as large as the
    # smallest heights if many are tied.
    kept = (scaled + c).relu_()
    return kept.sub_(kept.sign().mul_(excess(kept))).relu_()


def entmax_powers(scores: Tensor, r: float | Tensor, convex: bool) -> Tensor:
    """Return unnormalized α-entmax of centered rows for any ``r = α - 1 > -1``.

    The unknown is ``level = -log max(p) = -log(c) / r``, which stays accurate as ``r -> 0``.

    Args:
        scores: centered scores, ``(..., n)``.
        r: a number or a tensor that broadcasts to ``(..., 1)``.
        convex: whether every ``r <= 1``; otherwise rows with ``r > 1`` are solved by bisection,
            and the scores must be float64.
    """
    if isinstance(r, Tensor):
        r = r.to(scores.device, scores.dtype)
    else:  # filled on the device: a constant of the host would be copied to it
        r = torch.full((), r, dtype=scores.dtype, device=scores.device)
    r = r.masked_fill(r.abs() < SMALLEST_R, SMALLEST_R)
    level = (_newton_level if convex else _bracketed_level)(scores, r)
    below = _below_one(scores, r, level)
    height = below + 1
    cut, _ = _excess(_logs(below, height, r), r, level)
    cut = torch.where(r > 1, 0.0, cut) * height.sign()
    powers = _logs(below - cut, (height - cut).clamp(min=0), r).exp_()
    if convex:
        return powers
    scaled = (scores * r).clamp(min=-torch.finfo(scores.dtype).max)
    return torch.where(r > 1, _powers_by_bisection(scaled, r, level), powers)


def _newton_level(scores: Tensor, r: Tensor) -> Tensor:
    """Return the level by Newton's method, for ``r <= 1``."""

    def step(negative: Tensor) -> Tensor:
        logs = _below_one(scores, r, -negative).log1p_() / r
        cut, _ = _excess(logs, r, -negative)
        return negative + (-cut).log1p() / r

    start = torch.zeros_like(scores[..., :1] + r)
    return -_descend(step, start, _passes(scores, 1.0))


def _bracketed_level(scores: Tensor, r: Tensor) -> Tensor:
    """Return the level by Newton's method if ``r <= 1``, else by bisection of ``[0, log n]``."""
    low = level = torch.zeros_like(scores[..., :1] + r)
    high = low + math.log(scores.size(-1))
    bits = -math.log2(torch.finfo(scores.dtype).eps)
    for _ in range(_passes(scores, 1.0) + math.ceil(bits / 2)):
        logs = _below_one(scores, r, level).log1p_() / r
        cut, gap = _excess(logs, r, level)
        before = gap < 0
        low, high = torch.where(before, level, low), torch.where(before, high, level)
        newton = torch.maximum(level, level - (-cut).log1p() / r)
        level = torch.where(r > 1, (low + high) / 2, newton)
    return level


def _powers_by_bisection(scaled: Tensor, r: Tensor, level: Tensor) -> Tensor:
    """Return ``[w + c]_+^{1/r}`` for ``r > 1``, given a lower bound of the level close to its root.

    A share of ``10^-5`` has a height ``w + c`` of ``10^{-5 r}``, which is lost in the rounding of
    ``c``. Heights are therefore measured from the lowest entry that the bound of ``c`` admits to
    the support, and the logarithm of the height of that entry is found by bisection.
    """
    c = (-r * level).clamp(min=_LOWEST_LOG).exp()
    # Entries tied with the threshold may lie below it by the rounding error of c.
    kept = scaled + c > -_TIED * c
    above = scaled - scaled.masked_fill(~kept, 0.0).amin(-1, keepdim=True)
    low, high = torch.full_like(c, _LOWEST_LOG), torch.zeros_like(c)

    def powers_at(log_height: Tensor) -> Tensor:
        return ((above + log_height.exp()) * kept).pow(1 / r)

    for _ in range(_HEIGHT_PASSES):
        middle = (low + high) / 2
        large = powers_at(middle).sum(-1, keepdim=True) > 1
        low, high = torch.where(large, low, middle), torch.where(large, middle, high)
    return powers_at(high)


def _below_one(scores: Tensor, r: Tensor, level: Tensor) -> Tensor:
    """Return ``(p / max p)^r - 1 = r x / c`` at a level; ``-1`` outside the support."""
    # The clamp keeps exp(r level) = 1 / c finite for large r, where c underflows.
    growth = (r * level).clamp(max=0.98 * math.log(torch.finfo(scores.dtype).max)).exp()
    return ((r * growth) * scores).clamp_min_(-1)


def _logs(below: Tensor, height: Tensor, r: Tensor) -> Tensor:
    """Return ``log(p / max p)`` from ``height = below + 1`` or ``below``, the more accurate one."""
    return torch.where(below < -0.5, height.log(), below.log1p()).div_(r)


def _excess(logs: Tensor, r: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
    """Return the Newton decrement over ``c``, and ``level - log Σ``, negative before the root."""
    total = logs.exp().sum(-1, keepdim=True).clamp_min_(_TINY)
    # (1 - r) clamped above zero turns exp(-inf * 0) at r = 1 into 0, not NaN.
    slope = logs.mul_((1 - r).clamp_min_(_TINY)).exp_().sum(-1, keepdim=True)
    gap = level - total.log()
    return -(r * gap).expm1() * total / slope.clamp_min_(_TINY), gap


def _descend(step: Step, start: Tensor, passes: int) -> Tensor:
    """Iterate ``c <- min(c, step(c))``.

    If values can be read at no cost, the loop ends once nothing changes: every row has then reached
    its fixed point, so the result does not depend on the rest of the batch.
    """
    current, early = start, is_concrete(start)
    for _ in range(passes):
        # minimum() propagates NaN, so a NaN row stays NaN; rounding cannot make a row oscillate.
        following = torch.minimum(current, step(current))
        if early and torch.equal(following, current):
            break
        current = following
    return current


def _passes(scores: Tensor, r: float) -> int:
    """Return a number of Newton steps that is sufficient for every row.

    For a convex increasing function, each step divides the product of residual and slope by at
    least four; it starts at ``n^{2r}`` at most and must fall to the rounding error.
    """
    n = max(scores.size(-1), 1)
    return 2 + math.ceil(math.log(n ** (2 * r) / torch.finfo(scores.dtype).eps, 4))

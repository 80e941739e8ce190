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

from repro.mappings._arguments import is_concrete

Step = Callable[[Tensor], Tensor]
SMALLEST_ORDER = 1e-20
"""Stands for ``α - 1 = 0``: small enough that ``log1p(r x) / r`` is ``x`` to the last bit."""
_DEEPEST = -700.0
"""Logarithm of the smallest height that is looked for, in double precision."""
_TIED = 1e-12
"""Largest distance of entries below the threshold, relative to ``c``."""
_HEIGHT_PASSES = 64
"""Halvings of ``[-700, 0]`` after which rounding decides."""
_TINY = 1e-30
"""Keeps a row with nothing allowed out of 0 / 0; sums of all other rows are at least one."""


def sparsemax_powers(scores: Tensor) -> Tensor:
    """Unnormalised sparsemax of centred rows; iterates the closed form on the current support."""

    def excess(kept: Tensor) -> Tensor:
        mass = kept.sum(-1, keepdim=True)
        return (mass - 1) / kept.sign().sum(-1, keepdim=True)

    return _lowered(scores, excess, _passes(scores, 1.0))


def entmax15_powers(scores: Tensor) -> Tensor:
    """Unnormalised 1.5-entmax of centred rows."""

    def excess(kept: Tensor) -> Tensor:
        total = kept.sum(-1, keepdim=True).clamp_min_(_TINY)
        norm = kept.square().sum(-1, keepdim=True).sqrt_()
        return norm * (norm - 1) / total

    return _lowered(scores / 2, excess, _passes(scores, 0.5)).pow_(2)


def _lowered(scaled: Tensor, excess: Step, passes: int) -> Tensor:
    """``[r x + c]_+`` at the root; ``excess`` says by how much Newton lowers ``c``.

    ``c`` stays above the root by more than its rounding: just below it, entries tied at the
    threshold would be out of the support, and nothing would bring them back.
    """
    above = 2 * torch.finfo(scaled.dtype).eps

    def step(c: Tensor) -> Tensor:
        return c - excess((scaled + c).relu_()) + above

    c = _descend(step, torch.ones_like(scaled[..., :1]), passes)
    # The last step changes the small differences, not c, whose rounding is of the size of the
    # smallest entries when many are tied.
    kept = (scaled + c).relu_()
    return kept.sub_(kept.sign().mul_(excess(kept))).relu_()


def entmax_powers(scores: Tensor, order: float | Tensor, convex: bool) -> Tensor:
    """Unnormalised α-entmax of centred rows for any ``r = α - 1 >= 0``.

    The unknown is ``level = -log max(p) = -log(c) / r``, which stays accurate as ``r -> 0``.

    Args:
        scores: centred scores, ``(..., n)``.
        order: ``r``, a number or a tensor that broadcasts to ``(..., 1)``.
        convex: every ``r <= 1``; otherwise rows with ``r > 1`` are bisected, and the scores must be
            float64.
    """
    order = torch.as_tensor(order, dtype=scores.dtype, device=scores.device)
    order = order.clamp(min=SMALLEST_ORDER)
    level = (_newton_level if convex else _bracketed_level)(scores, order)
    below = _below_one(scores, order, level)
    height = below + 1
    cut, _ = _excess(_logs(below, height, order), order, level)
    cut = torch.where(order > 1, 0.0, cut) * height.sign()
    powers = _logs(below - cut, (height - cut).clamp(min=0), order).exp_()
    if convex:
        return powers
    return torch.where(order > 1, _raised_powers(scores * order, order, level), powers)


def _newton_level(scores: Tensor, order: Tensor) -> Tensor:
    def step(negative: Tensor) -> Tensor:
        logs = _below_one(scores, order, -negative).log1p_() / order
        cut, _ = _excess(logs, order, -negative)
        return negative + (-cut).log1p() / order

    start = torch.zeros_like(scores[..., :1] + order)
    return -_descend(step, start, _passes(scores, 1.0))


def _bracketed_level(scores: Tensor, order: Tensor) -> Tensor:
    """Newton where ``r <= 1``, bisection of ``[0, log n]`` elsewhere."""
    low = level = torch.zeros_like(scores[..., :1] + order)
    high = low + math.log(scores.size(-1))
    bits = -math.log2(torch.finfo(scores.dtype).eps)
    for _ in range(_passes(scores, 1.0) + math.ceil(bits / 2)):
        logs = _below_one(scores, order, level).log1p_() / order
        cut, gap = _excess(logs, order, level)
        before = gap < 0
        low, high = torch.where(before, level, low), torch.where(before, high, level)
        newton = torch.maximum(level, level - (-cut).log1p() / order)
        level = torch.where(order > 1, (low + high) / 2, newton)
    return level


def _raised_powers(scaled: Tensor, order: Tensor, level: Tensor) -> Tensor:
    """``[w + c]_+^{1/r}`` for ``r > 1`` from a lower bound of the level, next to its root.

    A share of ``10^-5`` has a height ``w + c`` of ``10^{-5 r}``, which is lost beside ``c``, and
    whose root is not small. Candidates are therefore taken relative to the lowest of them that the
    bound of ``c`` reaches, and the logarithm of its height is bisected.
    """
    c = (-order * level).clamp(min=_DEEPEST).exp()
    # Entries that are tied with the threshold may lie below it by the rounding of c.
    kept = scaled + c > -_TIED * c
    above = scaled - scaled.masked_fill(~kept, 0.0).amin(-1, keepdim=True)
    low, high = torch.full_like(c, _DEEPEST), torch.zeros_like(c)

    def raised(rise: Tensor) -> Tensor:
        return ((above + rise.exp()) * kept).pow(1 / order)

    for _ in range(_HEIGHT_PASSES):
        middle = (low + high) / 2
        large = raised(middle).sum(-1, keepdim=True) > 1
        low, high = torch.where(large, low, middle), torch.where(large, middle, high)
    return raised(high)


def _below_one(scores: Tensor, order: Tensor, level: Tensor) -> Tensor:
    """``(p / max p)^r - 1`` at a level, which is ``r x / c``; ``-1`` outside the support."""
    # The clamp keeps exp(r level) = 1 / c finite for large r, where c underflows.
    growth = (order * level).clamp(max=0.98 * math.log(torch.finfo(scores.dtype).max)).exp()
    return ((order * growth) * scores).clamp_min_(-1)


def _logs(below: Tensor, height: Tensor, order: Tensor) -> Tensor:
    """``log(p / max p)`` from ``height = below + 1``, each accurate in its own range."""
    return torch.where(below < -0.5, height.log(), below.log1p()).div_(order)


def _excess(logs: Tensor, order: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
    """Share of ``c`` by which Newton lowers it, and ``level - log Σ``, negative before the root."""
    total = logs.exp().sum(-1, keepdim=True).clamp_min_(_TINY)
    # (1 - r) clamped above zero turns exp(-inf * 0) at r = 1 into 0, not NaN.
    slope = logs.mul_((1 - order).clamp_min_(_TINY)).exp_().sum(-1, keepdim=True)
    gap = level - total.log()
    return -(order * gap).expm1() * total / slope.clamp_min_(_TINY), gap


def _descend(step: Step, start: Tensor, passes: int) -> Tensor:
    """Iterate ``c <- min(c, step(c))``.

    Where values can be read for free the loop ends once nothing moves; every row is then at its
    own fixed point, so the result is the same as after all passes, whatever else is in the batch.
    """
    current, early = start, is_concrete(start)
    for _ in range(passes):
        # minimum() propagates NaN, so a bad row stays bad; rounding cannot make a row oscillate.
        following = torch.minimum(current, step(current))
        if early and torch.equal(following, current):
            break
        current = following
    return current


def _passes(scores: Tensor, order: float) -> int:
    """Enough Newton steps for every row.

    For a convex increasing function the product of residual and slope falls at least fourfold
    per step; it starts at most at ``n^{2r}`` and matters until it reaches the rounding error.
    """
    n = max(scores.size(-1), 1)
    return 2 + math.ceil(math.log(n ** (2 * order) / torch.finfo(scores.dtype).eps, 4))

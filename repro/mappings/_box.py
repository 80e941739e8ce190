"""Distributions under upper bounds: which entries are full, found exactly by sorting.

Large scores may be used up, and the threshold then lies far below them, so a row is not centred
at its largest score but at its *anchor*: the score at which the bounds, added up from the largest
score down, first reach the total. Thresholds lie within the largest bound of the anchor; without
bounds the anchor is the largest score.
"""

import torch
from torch import Tensor

AT_ZERO, INTERIOR, AT_UPPER = 0, 1, 2
"""KKT status of an entry: at zero, strictly inside its bounds, at its upper bound."""
_POLISHES = 2
_DOUBT = 64
"""Roundings within which the logarithms of a share and of its bound count as equal."""
_REACH = -2.0
"""Entries this far below the anchor stay empty: bounds are at most one where it matters."""


def box_projection(scores: Tensor, upper: Tensor, total: float | Tensor) -> tuple[Tensor, Tensor]:
    """``clip(z - τ, 0, u)`` with the ``τ`` at which the entries sum to the total.

    Args:
        scores: shape ``(..., n)`` with ``n >= 1``; ``-inf`` where forbidden.
        upper: bounds, like ``scores``, zero where forbidden. Either they or the total are at
            most one.
        total: mass to spend, a number or ``(..., 1)``. Where the bounds sum to less, all of them
            are used up.

    Returns:
        The distributions, and the KKT status of their entries.
    """
    centred, limit, tight = _anchored(scores, upper, total)
    bound = torch.minimum(upper, limit)
    # τ <= 0: what lies above its bound is full wherever it is; now x and x - u both stay small.
    centred = torch.minimum(centred, bound).clamp(min=_REACH)
    centred, bound, limit = centred.double(), bound.double(), limit.double()
    # The sum of the entries is piecewise linear in the threshold: going down, an entry joins at x
    # and leaves, full, at x - u. The corners are sorted and the sum followed from one to the next.
    corners, permutation = torch.cat([centred, centred - bound], -1).sort(-1, descending=True)
    slope = (1.0 - 2.0 * (permutation >= scores.size(-1)).to(centred.dtype)).cumsum(-1)
    gaps = corners[..., :-1] - corners[..., 1:]
    filled = (slope[..., :-1] * gaps).cumsum(-1)
    filled = torch.cat([torch.zeros_like(limit * gaps[..., :1]), filled], -1)
    segment = ((filled < limit).sum(-1, keepdim=True) - 1).clamp_min_(0)
    missing = limit - filled.gather(-1, segment)
    tau = corners.gather(-1, segment) - missing / slope.gather(-1, segment).clamp_min_(1.0)
    distance = centred - tau
    for _ in range(_POLISHES):
        probs = torch.minimum(distance.relu(), bound)
        full = distance >= bound
        inside = (distance > 0) & ~full
        # Full entries first: their sum is exact for a budget, and the rest is small.
        left = limit - (bound * full).sum(-1, keepdim=True)
        surplus = (probs * inside).sum(-1, keepdim=True) - left
        distance = distance - inside * (surplus / inside.sum(-1, keepdim=True).clamp(min=1))
    probs = torch.minimum(distance.relu(), bound)
    full = (distance > 0) & (probs >= upper)
    return _finished(probs.to(scores.dtype), full, tight, scores, upper)


def bounded_softmax(scores: Tensor, upper: Tensor, total: float | Tensor) -> tuple[Tensor, Tensor]:
    """``min(exp(z) / Z, u)`` with the ``Z`` at which the entries sum to the total.

    Arguments and results are those of :func:`box_projection`; bounds and total may be of any size.
    """
    centred, limit, tight = _anchored(scores, upper, total)
    # In the order of z - log u the full entries come first; each is tested against what those
    # before it leave over. Doubtful ones are left to the passes below, as entries are easily added
    # to the full ones, but not taken back.
    key, permutation = (centred - upper.log()).sort(-1, descending=True)
    bounds = upper.gather(-1, permutation)
    left = limit - (bounds.cumsum(-1) - bounds)
    rest = centred.gather(-1, permutation).flip(-1).logcumsumexp(-1).flip(-1)
    full = left.clamp_min_(0.0).log_() + key - _DOUBT * torch.finfo(key.dtype).eps >= rest
    full = torch.zeros_like(full).scatter(-1, permutation, full) & (upper < torch.inf)
    finite = scores.clamp(max=torch.finfo(scores.dtype).max)
    shares = _shares(finite, upper, limit, full)
    for _ in range(_POLISHES):
        full = full | (shares >= upper)
        shares = _shares(finite, upper, limit, full)
    return _finished(torch.minimum(shares, upper), full, tight, scores, upper)


def _shares(scores: Tensor, upper: Tensor, limit: Tensor, full: Tensor) -> Tensor:
    """The bounds where full; elsewhere what they leave over, by softmax."""
    rest = (limit - upper.masked_fill(~full, 0.0).sum(-1, keepdim=True)).clamp_min_(0.0)
    free = scores.masked_fill(full, -torch.inf).softmax(-1)
    # A row without a free entry gives 0 / 0, and nothing of it is used.
    return torch.where(full, upper, rest * free)


def _anchored(
    scores: Tensor, upper: Tensor, total: float | Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Finite scores relative to the anchor, the mass to spend, and whether all bounds are used."""
    largest = torch.finfo(scores.dtype).max
    finite = scores.clamp(max=largest)
    points, permutation = finite.sort(-1, descending=True)
    spent = upper.gather(-1, permutation).cumsum(-1)
    available = spent[..., -1:]
    total = torch.as_tensor(total, dtype=scores.dtype, device=scores.device)
    limit = torch.minimum(available, total)
    last = (spent < limit).sum(-1, keepdim=True)
    anchor = points.gather(-1, last.clamp(max=scores.size(-1) - 1)).clamp_min_(-largest)
    return (finite - anchor).clamp(-largest, largest), limit, available <= total


def _finished(
    probs: Tensor, full: Tensor, tight: Tensor, scores: Tensor, upper: Tensor
) -> tuple[Tensor, Tensor]:
    """All bounds where the row is tight, NaN where a score is, nothing where forbidden."""
    allowed = scores != -torch.inf
    full = (full | tight) & allowed
    probs = torch.where(tight, upper, probs).masked_fill(~allowed, 0.0)
    probs = probs.masked_fill(scores.isnan().any(-1, keepdim=True), torch.nan)
    inside = allowed & ~full & (probs > 0)
    return probs, full.to(torch.uint8) * AT_UPPER + inside.to(torch.uint8) * INTERIOR

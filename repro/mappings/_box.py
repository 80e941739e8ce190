"""Distributions under upper bounds, whose active set is found exactly by sorting.

If the bounds of large scores are small, the threshold lies far below these scores. A row is
therefore not centered at its largest score but at its *anchor*: the score at which the bounds,
accumulated in descending order of the scores, first reach the total. The distance of the threshold
from the anchor is at most the largest bound. Without bounds the anchor is the largest score.
An entry is *full* if its upper bound is active.
"""

import torch
from torch import Tensor

from repro.mappings._arguments import in_double, prefix_sums

AT_ZERO, INTERIOR, AT_UPPER = 0, 1, 2
"""KKT status of an entry: at zero, strictly inside its bounds, at its upper bound."""
_REFINEMENTS = 2
"""Number of correction passes after the threshold or the full entries are found by sorting."""
_FULL_MARGIN = 64
"""Number of ``eps`` by which a share must exceed its bound, in logarithms, to be full at once."""
_LOWEST = -2.0
"""Centered scores are clamped here, below every threshold: bounds or totals are at most one."""


def box_projection(scores: Tensor, upper: Tensor, total: float | Tensor) -> tuple[Tensor, Tensor]:
    """Return ``clip(z - τ, 0, u)``, where ``τ`` is such that the entries sum to the total.

    Args:
        scores: shape ``(..., n)`` with ``n >= 1``; ``-inf`` where forbidden.
        upper: bounds, like ``scores``, zero where forbidden. Either they or the total must be
            at most one.
        total: sum of each row, a number or ``(..., 1)``; if the bounds sum to less, all entries
            are full.

    Returns:
        The distributions, and the KKT status of their entries.
    """
    centered, limit, tight = _anchored(scores, upper, total)
    bound = torch.minimum(upper, limit)
    # τ <= 0: an entry above its bound is full however large it is; now x and x - u are small.
    centered = torch.minimum(centered, bound).clamp(min=_LOWEST)
    centered, bound, limit = in_double(centered), in_double(bound), in_double(limit)
    # The sum of the entries is piecewise linear in the threshold: as that decreases, an entry
    # becomes positive at x and full at x - u. These breakpoints are sorted and the sum accumulated.
    breakpoints, permutation = torch.cat([centered, centered - bound], -1).sort(-1, descending=True)
    slope = prefix_sums(1.0 - 2.0 * (permutation >= scores.size(-1)).to(centered.dtype))
    gaps = breakpoints[..., :-1] - breakpoints[..., 1:]
    filled = prefix_sums(slope[..., :-1] * gaps)
    filled = torch.cat([torch.zeros_like(limit * gaps[..., :1]), filled], -1)
    segment = ((filled < limit).sum(-1, keepdim=True) - 1).clamp_min_(0)
    missing = limit - filled.gather(-1, segment)
    tau = breakpoints.gather(-1, segment) - missing / slope.gather(-1, segment).clamp_min_(1.0)
    distance = centered - tau
    for _ in range(_REFINEMENTS):
        probs = torch.minimum(distance.relu(), bound)
        full = distance >= bound
        inside = (distance > 0) & ~full
        # Subtract full entries first: with bounds of one their sum is exact, and the rest is small.
        left = limit - (bound * full).sum(-1, keepdim=True)
        surplus = (probs * inside).sum(-1, keepdim=True) - left
        distance = distance - inside * (surplus / inside.sum(-1, keepdim=True).clamp(min=1))
    probs = torch.minimum(distance.relu(), bound)
    full = (distance > 0) & (probs >= upper)
    return _with_status(probs.to(scores.dtype), full, tight, scores, upper)


def bounded_softmax(scores: Tensor, upper: Tensor, total: float | Tensor) -> tuple[Tensor, Tensor]:
    """Return ``min(exp(z) / Z, u)``, where ``Z`` is such that the entries sum to the total.

    Arguments and results are those of :func:`box_projection`; bounds and total may be of any size.
    """
    centered, limit, tight = _anchored(scores, upper, total)
    # In descending order of z - log u the full entries come first; each is tested against the mass
    # that those before it leave. Entries within rounding of their bounds are decided by the passes
    # below, which can add entries to the full ones but not remove any.
    key, permutation = (centered - upper.log()).sort(-1, descending=True)
    bounds = upper.gather(-1, permutation)
    left = limit - (prefix_sums(bounds) - bounds)
    rest = centered.gather(-1, permutation).flip(-1).logcumsumexp(-1).flip(-1)
    full = left.clamp_min_(0.0).log_() + key - _FULL_MARGIN * torch.finfo(key.dtype).eps >= rest
    full = torch.zeros_like(full).scatter(-1, permutation, full) & (upper < torch.inf)
    finite = scores.clamp(max=torch.finfo(scores.dtype).max)
    shares = _shares(finite, upper, limit, full)
    for _ in range(_REFINEMENTS):
        full = full | (shares >= upper)
        shares = _shares(finite, upper, limit, full)
    return _with_status(torch.minimum(shares, upper), full, tight, scores, upper)


def _shares(scores: Tensor, upper: Tensor, limit: Tensor, full: Tensor) -> Tensor:
    """Return the bounds of full entries, and the rest of the limit by softmax of the others."""
    rest = (limit - upper.masked_fill(~full, 0.0).sum(-1, keepdim=True)).clamp_min_(0.0)
    free = scores.masked_fill(full, -torch.inf).softmax(-1)
    # In a row without free entries softmax is 0 / 0, but all its entries are replaced.
    return torch.where(full, upper, rest * free)


def _anchored(
    scores: Tensor, upper: Tensor, total: float | Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return finite scores less the anchor, the sum to reach, and whether all entries are full."""
    largest = torch.finfo(scores.dtype).max
    finite = scores.clamp(max=largest)
    points, permutation = finite.sort(-1, descending=True)
    cumulative = prefix_sums(upper.gather(-1, permutation))
    available = cumulative[..., -1:]
    total = torch.as_tensor(total, dtype=scores.dtype, device=scores.device)
    limit = torch.minimum(available, total)
    last = (cumulative < limit).sum(-1, keepdim=True)
    anchor = points.gather(-1, last.clamp(max=scores.size(-1) - 1)).clamp_min_(-largest)
    return (finite - anchor).clamp(-largest, largest), limit, available <= total


def _with_status(
    probs: Tensor, full: Tensor, tight: Tensor, scores: Tensor, upper: Tensor
) -> tuple[Tensor, Tensor]:
    """Set tight rows, rows with NaN and forbidden entries; return distributions and KKT status."""
    allowed = scores != -torch.inf
    full = (full | tight) & allowed
    probs = torch.where(tight, upper, probs).masked_fill(~allowed, 0.0)
    probs = probs.masked_fill(scores.isnan().any(-1, keepdim=True), torch.nan)
    inside = allowed & ~full & (probs > 0)
    return probs, full.to(torch.uint8) * AT_UPPER + inside.to(torch.uint8) * INTERIOR

"""Slow and obvious versions of the mappings, in float64, to test the fast ones against."""

import torch
from torch import Tensor


def softmax_by_definition(scores: Tensor) -> Tensor:
    """Exponentiate and normalise the last axis."""
    powers = (scores.double() - scores.double().amax(-1, keepdim=True)).exp()
    return powers / powers.sum(-1, keepdim=True)


def sparsemax_by_sorting(scores: Tensor) -> Tensor:
    """Project the last axis onto the simplex; Martins & Astudillo (2016), Algorithm 1."""
    centred = scores.double() - scores.double().amax(-1, keepdim=True)
    ordered = centred.sort(-1, descending=True).values
    ranks = torch.arange(1, ordered.size(-1) + 1, dtype=torch.float64)
    thresholds = (ordered.cumsum(-1) - 1) / ranks
    size = (ordered > thresholds).sum(-1, keepdim=True)
    return (centred - thresholds.gather(-1, size - 1)).clamp(min=0)


def entmax_by_bisection(scores: Tensor, alpha: float = 1.5, passes: int = 200) -> Tensor:
    """α-entmax of the last axis; Peters et al. (2019), Algorithm 1, on centred scores."""
    centred = (alpha - 1) * (scores.double() - scores.double().amax(-1, keepdim=True))
    low = torch.full_like(centred[..., :1], -1.0)
    high = torch.full_like(low, -(float(scores.size(-1)) ** (1 - alpha)))
    for _ in range(passes):
        middle = (low + high) / 2
        enough = _power(centred - middle, alpha).sum(-1, keepdim=True) >= 1
        low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)
    powers = _power(centred - low, alpha)
    return powers / powers.sum(-1, keepdim=True)


def _power(base: Tensor, alpha: float) -> Tensor:
    return base.clamp(min=0) ** (1 / (alpha - 1))
